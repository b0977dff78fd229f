"""The versions of an export, and the file list in their manifests, which a server waits for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import MANIFEST, atomic_file, read_json, write_json

FILES = "files"
BYTES, SHA256 = "bytes", "sha256"


def versions_in(folder: Path) -> list[Path]:
    """The folders of the exported versions of a model."""
    return [path for path in folder.glob("*") if path.name.isdigit()]


def list_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and hash of each file but the manifest, by path."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): _entry(path)
        for path in paths
        if path != folder / MANIFEST
    }


def update_file_list(folder: Path, path: Path) -> None:
    """Updates the manifest after a file was replaced.

    A folder without a manifest, or with a manifest without a file list, stays unchanged.

    Args:
        folder: The exported folder.
        path: The file in it.

    Raises:
        PipelineError: The manifest is damaged, or cannot be written.
    """
    if not (folder / MANIFEST).is_file():
        return
    manifest = read_json(folder / MANIFEST, "Export the model again.")
    if FILES in manifest:
        manifest[FILES][path.relative_to(folder).as_posix()] = _entry(path)
        with atomic_file(folder / MANIFEST) as temporary:
            write_json(temporary, manifest)


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            BYTES: path.stat().st_size,
            SHA256: hashlib.file_digest(file, "sha256").hexdigest(),
        }
