"""One shard of a split: a stream of requests, cut into batches across its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipelines.feed.batch import BatchSize, Piece
from pipelines.feed.chunk import Chunk
from pipelines.feed.order import Order, ShardPosition


class ShardBatch(NamedTuple):
    """The requests of one batch, and the position of the request after it."""

    pieces: list[Piece]
    next: ShardPosition


@dataclass(frozen=True)
class Shard:
    """The shard `number` of an epoch.

    Args:
        order: The order of the epoch's requests.
        epoch: Number of the epoch.
        number: Number of the shard.
        chunks: How many chunks the shard has.
        size: Limits of a batch.
    """

    order: Order
    epoch: int
    number: int
    chunks: int
    size: BatchSize

    def batches(
        self, chunks: Iterable[Chunk], start: ShardPosition = (0, 0)
    ) -> Iterator[ShardBatch]:
        """The batches from `start` on.

        Requests of a chunk that do not fill a batch are copied, so that the chunk can be freed,
        and begin the next batch.

        Args:
            chunks: The decoded chunks, the first of which holds `start`.
            start: Number of a chunk, and of a request in the chunk's order.
        """
        left: list[Piece] = []
        first, skip = start
        for index, chunk in enumerate(chunks, first):
            requests = self.order.requests(self.epoch, self.number, index, len(chunk))[skip:]
            pieces = [*left, (chunk, requests)]
            lengths = np.concatenate([piece.lengths(of_piece) for piece, of_piece in pieces])
            earlier = len(lengths) - len(requests)
            done = 0
            for begin, done in self.size.cut(lengths, more=index < self.chunks - 1):
                used = skip + done - earlier
                after = (index, used) if used < len(chunk) else (index + 1, 0)
                yield ShardBatch(list(_between(pieces, begin, done)), after)
            left = [
                (piece.take(of_piece), np.arange(len(of_piece)))
                if piece is chunk
                else (piece, of_piece)
                for piece, of_piece in _between(pieces, done, len(lengths))
            ]
            skip = 0


def _between(pieces: Iterable[Piece], begin: int, end: int) -> Iterator[Piece]:
    """The requests `begin` to `end`, counted over all pieces."""
    for chunk, requests in pieces:
        between = requests[max(begin, 0) : max(end, 0)]
        if len(between):
            yield chunk, between
        begin, end = begin - len(requests), end - len(requests)
