"""Where data lies: a local path, or a URI of any filesystem that pyarrow knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pipelines.common.errors import PipelineError

Where = Path | str
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(where: Where) -> bool:
    """Whether it is a URI such as `s3://bucket/folder`, and no local path."""
    return isinstance(where, str) and _URI.match(where) is not None


def without_credentials(where: Where) -> str:
    """The place without the user and password that a URI may hold."""
    return re.sub(r"//[^/@]*@", "//", str(where)) if is_uri(where) else str(where)


def shown(where: Where) -> str:
    """The place for people: a local path, or a URI without credentials and options."""
    return without_credentials(where).partition("?")[0] if is_uri(where) else str(where)


@dataclass(frozen=True)
class Storage:
    """One file or one folder on a filesystem.

    Args:
        filesystem: Where to look.
        path: The file or folder, as the filesystem calls it.
        name: The same for people: a local path or a URI, without credentials and options.
    """

    filesystem: fs.FileSystem
    path: str
    name: str

    @classmethod
    def of(cls, where: Where, filesystem: fs.FileSystem | None = None) -> Storage:
        """A path inside `filesystem`; where that is None, a local path or a URI."""
        name = shown(where)
        if filesystem is not None:
            return cls(filesystem, str(where), name)
        if not is_uri(where):
            return cls(fs.LocalFileSystem(), str(where), name)
        try:
            found, path = fs.FileSystem.from_uri(where)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).replace(str(where), name)  # which may hold a password
            raise PipelineError(f"{name} cannot be opened: {reason}.") from None
        return cls(found, path, name)

    def files(self) -> list[str]:
        """The Parquet files below a folder, sorted, relative to it; `""` for a single file."""
        return list(self._found())

    def stamps(self) -> dict[str, str]:
        """Size and time of the last change by the name of each of these files."""
        found = self._found().items()
        return {self.file_name(name): f"{i.size} {i.mtime_ns or 0}" for name, i in found}

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return self._info(self.path).type != fs.FileType.NotFound

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        return self._info(self.path).type == fs.FileType.Directory

    def __truediv__(self, name: str) -> Storage:
        """What is in the folder by this name."""
        return replace(self, path=self._inside(name), name=self.file_name(name))

    def file_name(self, relative: str) -> str:
        """A file's name for people."""
        return f"{self.name.rstrip('/')}/{relative}" if relative else self.name

    def open(self, relative: str) -> pa.NativeFile:
        """A file for reading from anywhere in it."""
        return self.filesystem.open_input_file(self._inside(relative))

    def state(self, relative: str) -> tuple[int, int]:
        """Size and time of the last change; a size of -1 where the file is gone."""
        info = self._info(self._inside(relative))
        return (info.size if info.is_file else -1), info.mtime_ns or 0

    def _found(self) -> dict[str, Any]:
        """What is known of the Parquet files, by their names below the folder."""
        info = self._info(self.path)
        found = {"": info} if info.type == fs.FileType.File else {}
        if info.type == fs.FileType.Directory:
            below = self._info(fs.FileSelector(self.path, recursive=True))
            files = {i.path[len(self.path) :].lstrip("/"): i for i in below if i.is_file}
            found = {name: files[name] for name in sorted(files) if _is_data(name)}
        if not found:
            raise PipelineError(f"{self.name} holds no Parquet file (*.parquet).")
        return found

    def _inside(self, relative: str) -> str:
        return f"{self.path.rstrip('/')}/{relative}" if relative else self.path

    def _info(self, what: str | fs.FileSelector) -> Any:
        try:
            return self.filesystem.get_file_info(what)
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"{self.name} cannot be reached: {error}.") from None


def _is_data(name: str) -> bool:
    """Names that begin with a dot or an underscore are what other engines leave beside data."""
    return name.endswith(".parquet") and not any(part[0] in "._" for part in name.split("/"))
