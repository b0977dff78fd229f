"""Finished steps that several runs share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pipelines.common.artifacts import MANIFEST, atomic_directory


def link_step(source: Path, target: Path) -> None:
    """Hard links of a finished folder, or copies on another disk; nothing if they are there."""
    made = source / MANIFEST
    if (target / MANIFEST).is_file() and (target / MANIFEST).read_bytes() == made.read_bytes():
        return
    with atomic_directory(target) as folder:
        shutil.copytree(source, folder, copy_function=_linked, dirs_exist_ok=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
