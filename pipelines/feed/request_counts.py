"""The number of requests of a split and of steps of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pipelines.feed.batch import BatchSize
from pipelines.feed.batch_layout import Layout
from pipelines.feed.chunk import Chunk, group_starts
from pipelines.feed.order import Order
from pipelines.feed.shard import Shard
from pipelines.storage.dataset import DataSplit, Reader

_NOTHING = Layout({}, {}, {}, ())


@dataclass(frozen=True)
class RequestCounts:
    """Requests of each row group, and the rows of the longest one.

    All workers that share a split must take the same number of steps, although they read different
    rows. If every row is a request, the footers suffice. Otherwise the request column is read
    once; row groups with requests so long that they cut batches short are read in each epoch.
    """

    split: DataSplit
    request: str | None
    requests: np.ndarray
    longest: np.ndarray

    @classmethod
    def read(cls, split: DataSplit, request: str | None) -> Self:
        """Counts the requests of a split."""
        rows = split.footers.rows
        if request is None:
            return cls(split, request, rows, np.ones_like(rows))
        requests, longest = [], []
        with Reader(split.footers, [request]) as reader:
            for table, groups in reader.row_groups(range(len(rows))):
                starts = group_starts(table, request, groups)
                first = np.searchsorted(starts, np.cumsum(groups) - groups)
                requests.append(np.diff(first, append=len(starts) - 1))
                longest.append(np.maximum.reduceat(np.diff(starts), first))
        return cls(split, request, np.concatenate(requests), np.concatenate(longest))

    def steps(self, order: Order, epoch: int, size: BatchSize) -> int:
        """Number of batches of the longest shard."""
        shards = order.chunks(epoch)
        counts = (
            self._steps(Shard(order, epoch, number, len(chunks), size), chunks)
            for number, chunks in enumerate(shards)
            if chunks  # there may be more shards than row groups
        )
        return max(counts, default=0)

    def _steps(self, shard: Shard, chunks: list[np.ndarray]) -> int:
        size = shard.size
        # More than one candidate per request never makes a batch larger.
        most = min(size.requests, max(1, size.candidates // int(size.padded(np.array(1)))))
        cuts = size.padded(self.longest) * most > size.candidates
        groups = np.concatenate(chunks)
        if not cuts[groups].any():
            return -(-int(self.requests[groups].sum()) // most)
        with Reader(self.split.footers, [self.request] if self.request else []) as reader:
            sizes = (self._sizes(reader, numbers, cuts) for numbers in chunks)
            return sum(1 for _ in shard.batches(sizes))

    def _sizes(self, reader: Reader, numbers: np.ndarray, cuts: np.ndarray) -> Chunk:
        """A chunk of requests without values; short requests count as one candidate."""
        if not cuts[numbers].any():
            return Chunk(_NOTHING, {}, np.arange(self.requests[numbers].sum() + 1))
        starts = [np.zeros(1, np.int64)]
        for table, groups in reader.row_groups(numbers):
            starts.append(starts[-1][-1] + group_starts(table, self.request, groups)[1:])
        return Chunk(_NOTHING, {}, np.concatenate(starts))
