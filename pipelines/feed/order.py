"""The order of an epoch: row groups dealt to shards and gathered into chunks of mixed requests."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

SHUFFLE_ROWS = 262_144  # 41 MB of 39 integers each
ShardPosition = tuple[int, int]


@dataclass(frozen=True)
class Position:
    """The position in an epoch, as plain data that a checkpoint can hold as JSON.

    Attributes:
        epoch: Number of the epoch.
        step: Number of finished batches of the epoch.
        places: Chunk and next request in it (in the chunk's order), for each shard of the feed;
            empty at the start of an epoch.
    """

    epoch: int = 0
    step: int = 0
    places: tuple[ShardPosition, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The position that `to_dict` wrote."""
        places = tuple((int(chunk), int(request)) for chunk, request in values["places"])
        return cls(values["epoch"], values["step"], places)


START = Position()


@dataclass(frozen=True)
class Order:
    """The order of requests, derived from the sizes of the row groups.

    Row groups are shuffled over the whole split and dealt to shards of nearly equal rows. In each
    shard they are gathered, in their shuffled order, into chunks of at most `shuffle_rows` rows,
    and the requests of a chunk are shuffled.

    Args:
        rows: Rows of each row group.
        seed: Seed of the order; None keeps the order of the files.
        shuffle_rows: Maximum rows of a chunk; a larger row group is a chunk alone.
        shards: Number of shards.
    """

    rows: np.ndarray
    seed: int | None
    shuffle_rows: int
    shards: int = 1

    def chunks(self, epoch: int) -> list[list[np.ndarray]]:
        """The chunks of each shard: numbers of row groups, ascending in a chunk."""
        numbers = np.arange(len(self.rows))
        if self.seed is not None:
            numbers = np.random.default_rng([self.seed, epoch, 0]).permutation(numbers)
        shard = self._deal(numbers)
        return [self._gather(numbers[shard == index]) for index in range(self.shards)]

    def requests(self, epoch: int, shard: int, chunk: int, count: int) -> np.ndarray:
        """The order of a chunk's `count` requests."""
        if self.seed is None:
            return np.arange(count)
        return np.random.default_rng([self.seed, epoch, 1 + shard, chunk]).permutation(count)

    def _deal(self, numbers: np.ndarray) -> np.ndarray:
        """Deals row groups to shards: the largest first, to the shard with the fewest rows."""
        shards = np.zeros(len(numbers), int)
        if self.shards > 1:
            rows = self.rows[numbers]
            heap = [(0, shard) for shard in range(self.shards)]
            for place in np.argsort(-rows, kind="stable"):
                total, shard = heap[0]
                shards[place] = shard
                heapq.heapreplace(heap, (total + int(rows[place]), shard))
        return shards

    def _gather(self, numbers: np.ndarray) -> list[np.ndarray]:
        chunks, begin, total = [], 0, 0
        for end, rows in enumerate(self.rows[numbers]):
            if end > begin and total + rows > self.shuffle_rows:
                chunks.append(np.sort(numbers[begin:end]))
                begin, total = end, 0
            total += rows
        if begin < len(numbers):
            chunks.append(np.sort(numbers[begin:]))
        return chunks
