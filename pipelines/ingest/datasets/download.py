"""Downloads official files into a cache folder and checks them."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Download:
    """An official file and its checksum.

    Attributes:
        url: The provider's address.
        files: sha256 by name of the files to keep: the download itself, or files in the archive.
    """

    url: str
    files: Mapping[str, str]


def source_folder(options: DataOptions, download: Download) -> Path:
    """The folder or file of `data.path`, or the checked download if that is None."""
    return options.paths()[0] if options.path else fetch(download, cache_folder() / options.source)


def required_path(options: DataOptions, how: str) -> Path:
    """`data.path` of a source that cannot be downloaded automatically."""
    if options.path:
        return options.paths()[0]
    raise PipelineError(
        f"The source {options.source!r} cannot be downloaded without accepting its terms: {how} "
        "Then set data.path to the file or its folder."
    )


def cache_folder() -> Path:
    """`$RECSYS_CACHE`, or `~/.cache/recsys-attn`."""
    return Path(os.environ.get("RECSYS_CACHE") or Path.home() / ".cache" / "recsys-attn")


def fetch(download: Download, folder: Path) -> Path:
    """`folder` with the download's files in it, each checked against its sha256.

    Raises:
        PipelineError: There is no network, or a file is not the expected one.
    """
    if all((folder / name).is_file() for name in download.files):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as temporary:
        part = Path(temporary) / "download"
        _download(download, folder, part)
        name = download.url.rsplit("/", 1)[-1]
        if name in download.files:
            _check(name, part, download)
            part.replace(folder / name)
        else:
            for name in download.files:
                target = Path(temporary) / name
                _extract(part, name, target, download)
                _check(name, target, download)
            for name in download.files:
                (Path(temporary) / name).replace(folder / name)
    return folder


def _download(download: Download, folder: Path, part: Path) -> None:
    try:
        with urllib.request.urlopen(download.url, timeout=60) as response, part.open("wb") as file:
            shutil.copyfileobj(response, file, _BLOCK)
    except (urllib.error.URLError, OSError) as error:
        raise PipelineError(
            f"Cannot download {download.url} ({error}); fetch it by hand, put "
            f"{' and '.join(download.files)} into {folder}, or set data.path to where it is."
        ) from error


def _check(name: str, path: Path, download: Download) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != download.files[name]:
        raise PipelineError(
            f"{name} from {download.url} is not the expected file: sha256 "
            f"{download.files[name]} was expected, {digest.hexdigest()} received; if the provider "
            "changed it, download it by hand, look at it and set data.path."
        )


def _extract(archive: Path, name: str, target: Path, download: Download) -> None:
    try:
        with archive.open("rb") as file:
            for member, content in _members(file):
                if member.rsplit("/", 1)[-1] == name:
                    with content, target.open("wb") as out:
                        shutil.copyfileobj(content, out, _BLOCK)
                    return
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise PipelineError(f"{download.url} is not a complete archive: {error}.") from error
    raise PipelineError(f"The archive {download.url} holds no file {name!r}.")


def _members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every file in a zip or tar, and in the tars inside a zip."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith((".tar.gz", ".tgz", ".tar")):
                    yield from _members(io.BytesIO(archive.read(name)))
                else:
                    yield name, archive.open(name)
        return
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            if content is not None:
                yield entry.name, content
