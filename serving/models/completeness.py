"""Whether a version's folder is whole: it may be copied file by file, in any order, in pieces.

An export of this project is held against its manifest, which lists the size and the hash of each
file. Of any other SavedModel the graph tells which files belong to it.
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

FILES = "files"  # of the manifest: by path
BYTES, SHA256 = "bytes", "sha256"
_NOT_JSON = Gap(MANIFEST, "is no JSON, or not yet")
_OTHER_SIZE = f"has another size than {MANIFEST} says"
_OTHER_CONTENT = f"has another content than {MANIFEST} says"


@dataclass(frozen=True)
class Look:
    """What a look at a folder has found.

    Args:
        folder: The folder as it was.
        gap: What it lacks; None where it is whole.
        is_of_before: Whether `gap` is what an earlier look has found.
    """

    folder: Fingerprint
    gap: Gap | None
    is_of_before: bool = False


class _Listed(NamedTuple):
    size: int | None
    sha256: str


def look(path: Path, before: Look | None = None) -> Look:
    """Looks at a version's folder; cheap where it has not changed since the look before.

    Once all sizes are right the files are hashed. Where a hash was wrong, they are hashed again
    once the folder stays the same from one look to the next: some tools give a file its size
    first, and it would be read again and again while it fills.
    """
    folder = fingerprint(path)
    is_same = before is not None and before.folder == folder
    if before is not None and is_same and not before.is_of_before:
        return before
    try:
        listed = _listed(path)
        gap = _NOT_JSON if listed is None else _gap(path, listed)
        if gap is None and listed:
            if before is not None and not is_same and _is_of_content(before.gap):
                return Look(folder, before.gap, is_of_before=True)
            gap = _content_gap(path, listed)
    except OSError as error:  # it goes while it is looked at, or may not be read
        file = path if error.filename is None else Path(error.filename)
        gap = Gap(file.name, "cannot be read", f" ({error.strerror})")
    return Look(folder, gap)


def _listed(path: Path) -> Mapping[str, _Listed] | None:
    """The files that the manifest lists; none without a list, None where it is not JSON."""
    file = path / MANIFEST
    if not file.is_file():
        return {}
    try:
        manifest = json.loads(file.read_bytes())
    except ValueError:
        return None
    files = manifest.get(FILES) if isinstance(manifest, dict) else None
    entries = files if isinstance(files, dict) else {}
    if not any(isinstance(entry, dict) and SHA256 in entry for entry in entries.values()):
        return {}  # an older export, or a manifest of something else
    known = {name: entry if isinstance(entry, dict) else {} for name, entry in entries.items()}
    return {
        name: _Listed(entry.get(BYTES), str(entry.get(SHA256)).lower())
        for name, entry in known.items()
    }


def _gap(path: Path, listed: Mapping[str, _Listed]) -> Gap | None:
    """What is missing by the sizes of the files, or by the graph where none are listed."""
    sizes = {
        name: (path / name).stat().st_size if (path / name).is_file() else None for name in listed
    }
    whole = sum(sizes[name] == one.size for name, one in listed.items())
    count = f"{whole} of {len(listed)} files are whole"
    for name, size in sizes.items():
        if size is None:
            return Gap(name, MISSING, f" ({count})")
    for name, one in listed.items():
        if sizes[name] != one.size:
            return Gap(name, _OTHER_SIZE, f" ({sizes[name]} instead of {one.size} bytes; {count})")
    if not (path / SAVED_MODEL_FILE).is_file():
        return Gap(SAVED_MODEL_FILE, MISSING)
    return None if listed else find_gap(path)


def _content_gap(path: Path, listed: Mapping[str, _Listed]) -> Gap | None:
    for name, one in listed.items():
        with (path / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != one.sha256:
                return Gap(name, _OTHER_CONTENT)
    return None


def _is_of_content(gap: Gap | None) -> bool:
    return gap is not None and gap.fault == _OTHER_CONTENT
