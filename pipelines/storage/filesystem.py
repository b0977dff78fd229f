"""Files on a local path, or at a URI of any filesystem that pyarrow supports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pipelines.common.errors import PipelineError

Where = Path | str
# Ends of the files' names, by format.
PARQUET, CSV, ANY = (".parquet",), (".csv", ".csv.gz"), ("",)
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(where: Where) -> bool:
    """Whether a path is a URI such as `s3://bucket/folder`, and not a local one."""
    return isinstance(where, str) and _URI.match(where) is not None


def without_credentials(where: Where) -> str:
    """Removes user and password from a URI."""
    return re.sub(r"//[^/@]*@", "//", str(where)) if is_uri(where) else str(where)


def shown(where: Where) -> str:
    """The name for messages: a local path, or a URI without credentials and options."""
    return without_credentials(where).partition("?")[0] if is_uri(where) else str(where)


@dataclass(frozen=True)
class Storage:
    """One file or one folder on a filesystem.

    Args:
        filesystem: The filesystem.
        path: Path of the file or folder in the filesystem.
        name: Name for messages: a local path or a URI without credentials and options.
    """

    filesystem: fs.FileSystem
    path: str
    name: str

    @classmethod
    def of(cls, where: Where, filesystem: fs.FileSystem | None = None) -> Storage:
        """A path inside `filesystem`, or, if that is None, a local path or a URI."""
        name = shown(where)
        if filesystem is not None:
            return cls(filesystem, str(where), name)
        if not is_uri(where):
            return cls(fs.LocalFileSystem(), str(where), name)
        try:
            filesystem, path = fs.FileSystem.from_uri(where)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).replace(str(where), name)  # may hold a password
            raise PipelineError(f"{name} cannot be opened: {reason}.") from None
        return cls(filesystem, path, name)

    def files(self, suffixes: Sequence[str] = PARQUET) -> list[str]:
        """The files of data below a folder, sorted, relative to it; `""` for a single file.

        What begins with `.` or `_`, or is in a folder that does, belongs to other engines; as in
        Hive and Spark, `_hour=7` is data. On this machine links are followed, each folder once.

        Args:
            suffixes: Ends of the files' names.
        """
        return list(self._data_files(tuple(suffixes)))

    def stamps(self, suffixes: Sequence[str] = PARQUET) -> dict[str, str]:
        """Size and modification time of each of `files`, by name."""
        files = self._data_files(tuple(suffixes)).items()
        return {self.file_name(name): f"{i.size} {i.mtime_ns or 0}" for name, i in files}

    def exists(self) -> bool:
        """Whether the file or folder exists."""
        return self._info(self.path).type != fs.FileType.NotFound

    def check_exists(self, what: str) -> None:
        """Raises an error that says `what` it is, unless it exists."""
        if not self.exists():
            raise PipelineError(f"The {what} {self.name} does not exist.")

    def is_dir(self) -> bool:
        """Whether this is a folder."""
        return self._info(self.path).type == fs.FileType.Directory

    def __truediv__(self, name: str) -> Storage:
        """A file or folder inside this folder."""
        return replace(self, path=self._inside(name), name=self.file_name(name))

    def file_name(self, relative: str) -> str:
        """A file's name for messages."""
        return f"{self.name.rstrip('/')}/{relative}" if relative else self.name

    def open(self, relative: str) -> pa.NativeFile:
        """Opens a file for random access."""
        return self.filesystem.open_input_file(self._inside(relative))

    def state(self, relative: str) -> tuple[int, int]:
        """Size and modification time; a size of -1 if the file is gone."""
        info = self._info(self._inside(relative))
        return (info.size if info.is_file else -1), info.mtime_ns or 0

    def _data_files(self, suffixes: tuple[str, ...]) -> dict[str, Any]:
        """Information on the files of data, by relative name."""
        info = self._info(self.path)
        files = {"": info} if info.type == fs.FileType.File else {}
        if info.type == fs.FileType.Directory:
            below = self._below()
            files = {
                name: below[name]
                for name in sorted(below)
                if name.endswith(suffixes) and not any(map(_is_hidden, name.split("/")))
            }
        if not files:
            kind = "Parquet file " if suffixes == PARQUET else "file "
            ends = " or ".join(f"*{suffix}" for suffix in suffixes)
            raise PipelineError(f"{self.name} holds no {kind}({ends}).")
        return files

    def _below(self) -> dict[str, Any]:
        """Information on all files below the folder, by relative name."""
        if isinstance(self.filesystem, fs.LocalFileSystem):
            return {name: self._info(self._inside(name)) for name in _local_files(self.path)}
        below = self._info(fs.FileSelector(self.path, recursive=True))
        return {info.path[len(self.path) :].lstrip("/"): info for info in below if info.is_file}

    def _inside(self, relative: str) -> str:
        return f"{self.path.rstrip('/')}/{relative}" if relative else self.path

    def _info(self, what: str | fs.FileSelector) -> Any:
        try:
            return self.filesystem.get_file_info(what)
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"{self.name} cannot be reached: {error}.") from None


def _local_files(path: str) -> Iterator[str]:
    """All files below a folder of this machine; follows links, each folder once."""

    def refuse(error: OSError) -> None:
        raise PipelineError(
            f"{error.filename} cannot be read: {error.strerror}. Allow this user to read the "
            "folder, or move it away: its rows would be missing."
        )

    seen: set[str] = set()
    for folder, below, names in os.walk(path, onerror=refuse, followlinks=True):
        real = os.path.realpath(folder)
        below[:] = [] if real in seen else sorted(name for name in below if not _is_hidden(name))
        if real not in seen:
            seen.add(real)
            yield from (Path(folder, name).relative_to(path).as_posix() for name in names)


def _is_hidden(part: str) -> bool:
    """Whether a file or folder is no data, by its name; `_hour=7` is a folder of Hive's."""
    return part.startswith(".") or (part.startswith("_") and "=" not in part)
