"""Blobs that were read a moment ago: few items are in most requests."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence

from serving.state.stores.store import Cell, Store

_MOST = 100_000  # cells


class RecentBlobs:
    """Reads cells, and those that users share at most once in some seconds.

    Args:
        store: The store.
        seconds: How old a shared blob may be; 0 reads all anew.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._blobs: dict[Cell, bytes | None] = {}
        self._begun = 0.0

    def read(self, cells: Sequence[Cell], shared: Container[bytes]) -> list[bytes | None]:
        """The blob of each cell, as `Store.read`.

        Args:
            cells: The cells.
            shared: The groups whose cells other users read too.
        """
        if not self._seconds:
            return self._store.read(cells)
        if time.monotonic() - self._begun > self._seconds or len(self._blobs) > _MOST:
            self._blobs, self._begun = {}, time.monotonic()
        blobs = self._blobs  # another thread may begin anew
        absent = [cell for cell in cells if cell not in blobs]
        read = dict(zip(absent, self._store.read(absent), strict=True)) if absent else {}
        answer = [read[cell] if cell in read else blobs[cell] for cell in cells]
        blobs.update((cell, blob) for cell, blob in read.items() if cell.group in shared)
        return answer
