"""A bottom-k sample of a stream, independent of its order and partition."""

from __future__ import annotations

import hashlib
import heapq
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BottomK(Generic[Item]):
    """Keeps the items whose names have the smallest hashes: a uniform sample.

    Args:
        size: Number of items to keep.
        seed: Seed of the hash.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._key = seed.to_bytes(8, "little", signed=True)
        self._heap: list[tuple[int, int, Item]] = []
        self._seen = 0

    def wants(self, name: str) -> bool:
        """Whether an item of this name would be kept at this point."""
        full = len(self._heap) >= self._size
        return self._size > 0 and not (full and -self._hash(name) <= self._heap[0][0])

    def add(self, name: str, item: Item) -> None:
        """Offers an item."""
        if not self.wants(name):
            return
        self._seen += 1  # no two entries are equal, so items are never compared
        heapq.heappush(self._heap, (-self._hash(name), self._seen, item))
        if len(self._heap) > self._size:
            heapq.heappop(self._heap)

    def items(self) -> list[Item]:
        """The kept items, ordered by hash."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: (-entry[0], entry[1]))]

    def _hash(self, name: str) -> int:
        digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=8, key=self._key)
        return int.from_bytes(digest.digest(), "little")
