"""Checks that a version's folder is complete: its files may be copied in any order, in pieces.

The manifest of an export of this project lists the size and the hash of each file. For any other
SavedModel the graph tells which files belong to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from serving.models.graph_files import MISSING, Gap, find_gap
from serving.models.version_dirs import Fingerprint, fingerprint
from serving.runtimes.tensorflow.saved_model import MANIFEST, SAVED_MODEL_FILE

FILES = "files"  # key of the manifest: entries by path
BYTES, SHA256 = "bytes", "sha256"
_NOT_JSON = Gap(MANIFEST, "is no JSON, or not yet")
_OTHER_SIZE = f"has another size than {MANIFEST} says"
_OTHER_CONTENT = f"has another content than {MANIFEST} says"


@dataclass(frozen=True)
class FolderCheck:
    """The result of a check of a folder.

    Args:
        folder: State of the folder.
        gap: What is missing; None if the folder is complete.
        is_unverified: Whether `gap` was found in an earlier state of the folder.
    """

    folder: Fingerprint = ()
    gap: Gap | None = None
    is_unverified: bool = False

    @property
    def fault(self) -> str | None:
        """The kind of gap."""
        return None if self.gap is None else self.gap.fault


class _Entry(NamedTuple):
    size: int | None
    sha256: str


def check_folder(path: Path, before: FolderCheck | None = None) -> FolderCheck:
    """Checks a version's folder; cheap if it has not changed since the check `before`.

    Files are hashed once all sizes are right. After a wrong hash they are hashed again only when
    the folder stays the same from one check to the next: some tools give a file its final size
    first, and it would be read with every check while it fills.
    """
    folder = fingerprint(path)
    is_same = before is not None and before.folder == folder
    if before is not None and is_same and not before.is_unverified:
        return before
    try:
        entries = _entries(path)
        gap = _NOT_JSON if entries is None else _gap(path, entries)
        if gap is None and entries:
            if before is not None and not is_same and before.fault == _OTHER_CONTENT:
                return FolderCheck(folder, before.gap, is_unverified=True)
            gap = _content_gap(path, entries)
    except OSError as error:  # the folder is deleted meanwhile, or may not be read
        file = path if error.filename is None else Path(error.filename)
        gap = Gap(file.name, "cannot be read", f" ({error.strerror})")
    return FolderCheck(folder, gap)


def _entries(path: Path) -> Mapping[str, _Entry] | None:
    """Returns the manifest's entries by path; empty without hashes, None if it is not JSON."""
    file = path / MANIFEST
    if not file.is_file():
        return {}
    try:
        manifest = json.loads(file.read_bytes())
    except ValueError:
        return None
    listed = manifest.get(FILES) if isinstance(manifest, dict) else None
    entries = {
        name: entry if isinstance(entry, dict) else {}
        for name, entry in (listed if isinstance(listed, dict) else {}).items()
    }
    if not any(SHA256 in entry for entry in entries.values()):
        return {}  # an older export, or another program's manifest
    return {
        name: _Entry(entry.get(BYTES), str(entry.get(SHA256)).lower())
        for name, entry in entries.items()
    }


def _gap(path: Path, entries: Mapping[str, _Entry]) -> Gap | None:
    """Returns a gap by the sizes of the files, or by the graph if none are listed."""
    sizes = {
        name: (path / name).stat().st_size if (path / name).is_file() else None for name in entries
    }
    wrong = {name: size for name, size in sizes.items() if size != entries[name].size}
    count = f"{len(entries) - len(wrong)} of {len(entries)} files are complete"
    for name, size in wrong.items():
        if size is None:
            return Gap(name, MISSING, f" ({count})")
    for name, size in wrong.items():
        return Gap(name, _OTHER_SIZE, f" ({size} instead of {entries[name].size} bytes; {count})")
    if not (path / SAVED_MODEL_FILE).is_file():
        return Gap(SAVED_MODEL_FILE, MISSING)
    return None if entries else find_gap(path)


def _content_gap(path: Path, entries: Mapping[str, _Entry]) -> Gap | None:
    for name, entry in entries.items():
        with (path / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                return Gap(name, _OTHER_CONTENT)
    return None
