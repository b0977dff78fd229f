"""The version folders of a model on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from serving.runtimes.tensorflow.saved_model import SAVED_MODEL_FILE

_MAX_VERSION = 2**63 - 1
# State of a folder: paths, sizes and times of change.
Fingerprint = tuple[tuple[str, int, int], ...]


def find_versions(base_path: Path) -> dict[int, list[Path]]:
    """Returns the folders of each version, newest first, with the folder `1` before `001`.

    Folders without a number as their name are ignored. An unreadable base path has no versions.
    """
    versions: dict[int, list[Path]] = {}
    for number, path in sorted(
        _numbered(base_path), key=lambda item: (-item[0], len(item[1].name))
    ):
        versions.setdefault(number, []).append(path)
    return versions


def has_graph(path: Path) -> bool:
    """Returns whether the folder has a saved_model.pb; False if that cannot be determined."""
    try:
        return (path / SAVED_MODEL_FILE).is_file()
    except OSError:
        return False


def fingerprint(path: Path) -> Fingerprint:
    """Returns the state of a folder, which differs after any change in it."""
    entries = []
    for file in sorted(path.rglob("*")):
        with contextlib.suppress(OSError):  # it may be deleted meanwhile
            stat = file.stat()
            entries.append((str(file), stat.st_size, stat.st_mtime_ns))
    return tuple(entries)


def why_nothing(base_path: Path) -> str:
    """Describes why no version was found, and the expected layout."""
    expected = (
        "Expected a folder that holds one numbered folder per version, each an exported "
        f"SavedModel, such as {base_path / '1' / SAVED_MODEL_FILE}."
    )
    if not base_path.is_dir():
        return f"The model base path {base_path} is not a folder. {expected}"
    if has_graph(base_path):
        return (
            f"The model base path {base_path} is itself a version: it holds {SAVED_MODEL_FILE}. "
            f"Name the folder above it, {base_path.resolve().parent}."
        )
    versions = sorted(path.name for _, path in _numbered(base_path))
    if versions:
        return (
            f"The version policy asks for none of the versions in {base_path}. "
            f"Found: {', '.join(versions)}."
        )
    try:
        names = sorted(path.name for path in base_path.iterdir())
    except OSError as error:
        return f"The model base path {base_path} cannot be read: {error.strerror}."
    if nearest := _model_below(base_path):
        return f"The model base path {base_path} holds no version. Did you mean {nearest}?"
    return (
        f"The model base path {base_path} holds no version. {expected} "
        f"Found: {', '.join(names[:10]) or 'nothing'}."
    )


def _model_below(base_path: Path) -> Path | None:
    """Returns the first folder with versions in a folder of models, or in `export` of a run."""
    for pattern in ("*", "export/*"):
        for path in sorted(base_path.glob(pattern)):
            if any(has_graph(version) for _, version in _numbered(path)):
                return path
    return None


def _numbered(base_path: Path) -> Iterator[tuple[int, Path]]:
    try:
        children = list(base_path.iterdir())
    except OSError:
        return
    for path in children:
        if path.name.isascii() and path.name.isdigit() and int(path.name) <= _MAX_VERSION:
            with contextlib.suppress(OSError):
                if path.is_dir():
                    yield int(path.name), path
