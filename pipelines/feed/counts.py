"""How many requests a split has, and how many steps an epoch of it."""

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
    """Of each row group the number of requests and the rows of its longest one.

    Every worker that shares a split has to make as many steps as the others, whose rows it does
    not read. Where every row is a request the footers say it all. Otherwise the request column,
    one of many, is read once; and where requests are so long that they cut batches short, the
    part of it in which they are is read again for each epoch.
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
        """Batches of the longest shard."""
        shards = order.chunks(epoch)
        counts = (
            self._steps(Shard(order, epoch, number, len(chunks), size), chunks)
            for number, chunks in enumerate(shards)
            if chunks  # there may be more shards than row groups
        )
        return max(counts, default=0)

    def _steps(self, shard: Shard, chunks: list[np.ndarray]) -> int:
        size = shard.size
        # More candidates than one each make a batch no larger.
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
