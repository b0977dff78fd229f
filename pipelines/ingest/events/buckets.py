"""Events on disk, divided by users: each bucket holds all events of its users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from pipelines.storage.hashing import hash_column

BUCKET = 1_000_000  # events of a bucket, on average
_MOST = 256  # open files
_SEED = 0


def user_hashes(users: pa.ChunkedArray) -> np.ndarray:
    """The hash that decides a user's bucket and the order of the users."""
    return hash_column(users, _SEED)


class Buckets:
    """Writes events into buckets, and reads them back by bucket; a context manager.

    A bucket is a range of hashes, and buckets come in the order of the hashes. With the users of
    a bucket in that order too, the order of all users does not depend on the number of buckets.
    Events of a bucket keep their order.

    Args:
        folder: Where the files are written.
        events: The number of events, which determines that of the buckets.
    """

    def __init__(self, folder: Path, events: int) -> None:
        self._folder = folder
        self._number = min(-(-events // BUCKET), _MOST)
        self._files: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._open = ExitStack()

    def add(self, events: pa.Table, user: str) -> None:
        """Adds events of the users in a column."""
        high = user_hashes(events[user]) >> np.uint64(32)
        bucket = ((high * np.uint64(self._number)) >> np.uint64(32)).astype(np.uint16)
        events = events.take(pa.array(np.argsort(bucket, kind="stable")))
        counts = np.bincount(bucket)
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts).tolist():
            if number not in self._files:
                file = self._open.enter_context(pa.OSFile(str(self._path(number)), "wb"))
                writer = pa.ipc.new_stream(file, events.schema)
                self._files[number] = self._open.enter_context(writer)
            first = ends[number] - counts[number]
            self._files[number].write_table(events.slice(first, counts[number]))

    def tables(self) -> Iterator[pa.Table]:
        """Yields the events of each bucket; call it when all are added."""
        self._open.close()
        for number in sorted(self._files):
            with pa.memory_map(str(self._path(number))) as file, pa.ipc.open_stream(file) as stream:
                yield stream.read_all()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()
