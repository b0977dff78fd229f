"""How well an order is shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from pipelines.feed.order import Order


@dataclass(frozen=True)
class ShuffleQuality:
    """An order beside a perfect shuffle, for which both numbers are 1.

    Attributes:
        displacement: Mean distance between a request's old and new place.
        deviation: If the data were sorted by a label that half of it has: mean squared deviation
            of the label's share in a batch. Up to the size of a batch where batches are all of
            one kind.
    """

    displacement: float
    deviation: float

    @classmethod
    def of(
        cls, order: Order, requests: Sequence[int] | np.ndarray, batch_size: int, epoch: int = 0
    ) -> Self:
        """The quality of an epoch's order; it holds the numbers of a chunk at a time.

        Args:
            order: Which requests come when; a batch has as many of each shard.
            requests: How many there are in each row group.
            batch_size: Requests of a batch from each shard.
            epoch: Of the order.
        """
        count, size = int(np.sum(requests)), batch_size * order.shards
        if count <= size:  # one batch, in which no order can be seen
            return cls(1.0, 1.0)
        distance, sizes, labels = 0.0, *np.zeros((2, count // batch_size + 1))
        for shard in range(order.shards):
            done = 0
            for numbers in stream(order, requests, epoch, shard):
                batch, place = np.divmod(np.arange(done, done + len(numbers)), batch_size)
                done += len(numbers)
                distance += np.abs(numbers - (batch * size + shard * batch_size + place)).sum()
                batches = slice(batch[0], batch[-1] + 1)
                sizes[batches] += np.bincount(batch - batch[0])
                labels[batches] += np.bincount(batch - batch[0], numbers >= count // 2)
        sizes, labels = sizes[sizes > 0], labels[sizes > 0]
        share = 1 - count // 2 / count
        variance = (np.square(labels / sizes - share) * sizes).sum()
        expected = share * (1 - share) * ((count - sizes) / (count - 1)).sum()
        return cls(distance / ((count**2 - 1) / 3), float(variance / expected))


def stream(
    order: Order, requests: Sequence[int] | np.ndarray, epoch: int, shard: int = 0
) -> Iterator[np.ndarray]:
    """Numbers of a shard's requests, counted through the files, chunk by chunk in their order.

    Args:
        order: Which requests come when.
        requests: How many there are in each row group.
        epoch, shard: Of the order.
    """
    first = np.cumsum(requests) - requests
    for chunk, groups in enumerate(order.chunks(epoch)[shard]):
        numbers = np.concatenate([first[g] + np.arange(requests[g]) for g in groups])
        if len(numbers):  # row groups may be empty
            yield numbers[order.requests(epoch, shard, chunk, len(numbers))]
