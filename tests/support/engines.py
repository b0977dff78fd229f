"""Work for engines, where a worker on a cluster can import it."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.common.errors import PipelineError


def joined(first: str, second: str) -> str:
    """Shows how states were merged."""
    return f"({first} {second})"


@contextlib.contextmanager
def appending() -> Iterator[Callable[[str], str]]:
    """Appends how many batches this worker has had."""
    numbers = itertools.count(1)
    yield lambda batch: f"{batch}{next(numbers)}"


@contextlib.contextmanager
def doubling() -> Iterator[Callable[[int], int]]:
    """Twice the batch."""
    yield lambda batch: 2 * batch


@contextlib.contextmanager
def reading() -> Iterator[Callable[[str], str]]:
    """The text of a file."""
    yield lambda name: Path(name).read_text("utf-8")


@contextlib.contextmanager
def megabyte(folder: Path) -> Iterator[Callable[[int], bytes]]:
    """Gives a large result, and leaves a file that tells so."""

    def make(batch: int) -> bytes:
        (folder / str(batch)).touch()
        return bytes(1_000_000)

    yield make


@contextlib.contextmanager
def failing() -> Iterator[Callable[[str], str]]:
    """Fails with a user's error, with an operating system's or with a bug."""

    def fail(batch: str) -> str:
        if batch == "user":
            raise PipelineError("b.parquet is damaged; make it again.")
        if batch == "system":
            raise PermissionError(13, "Permission denied", "/r")
        return str(1 / 0) if batch == "bug" else batch

    yield fail


@contextlib.contextmanager
def dying(folder: Path, times: int) -> Iterator[Callable[[str], str]]:
    """Kills its own process so many times, and works then."""

    def die(batch: str) -> str:
        if len(list(folder.iterdir())) < times:
            (folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    yield die
