"""What one of the processes that run tests makes for all of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this run of the tests, filled by whoever asks for it first.

    Args:
        factory: Pytest's; with pytest-xdist each process has a folder of its own in a common one.
        name: Of the folder.
        make: Fills it. Where that fails, the next one who asks tries again.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    made = folder.with_suffix(".made")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not made.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            made.touch()
    return folder
