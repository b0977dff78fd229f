"""One stream of requests, cut into batches over the borders of its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipelines.feed.batch import BatchSize, Piece
from pipelines.feed.chunk import Chunk
from pipelines.feed.order import Order, ShardPosition


class ShardBatch(NamedTuple):
    """A shard's share of a step: the requests of its batch, and where the shard goes on."""

    pieces: list[Piece]
    place: ShardPosition


@dataclass(frozen=True)
class Shard:
    """The epoch's `number`-th shard, of `chunks` chunks."""

    order: Order
    epoch: int
    number: int
    chunks: int
    size: BatchSize

    def parts(self, chunks: Iterable[Chunk], start: ShardPosition = (0, 0)) -> Iterator[ShardBatch]:
        """Batches from `start` on; `chunks` are those from `start`'s on.

        What a chunk has left for less than a batch is copied, so that the chunk can be forgotten,
        and becomes the beginning of the next batch.
        """
        held: list[Chunk] = []
        offset = start[1]
        for index, chunk in enumerate(chunks, start[0]):
            order = self.order.requests(self.epoch, self.number, index, len(chunk))
            requests, waiting, done = order[offset:], sum(map(len, held)), 0
            lengths = [*(piece.lengths(_all(piece)) for piece in held), chunk.lengths(requests)]
            more = index < self.chunks - 1
            for begin, end in self.size.cut(np.concatenate(lengths), more):
                own = requests[max(begin - waiting, 0) : end - waiting]
                before = [(piece, _all(piece)) for piece in held] if begin < waiting else []
                done, taken = end, offset + end - waiting
                place = (index, taken) if taken < len(chunk) else (index + 1, 0)
                yield ShardBatch([*before, *([(chunk, own)] if len(own) else [])], place)
            if done:
                held = []
            if done < waiting + len(requests):
                held.append(chunk.take(requests[max(done - waiting, 0) :]))
            offset = 0


def _all(chunk: Chunk) -> np.ndarray:
    return np.arange(len(chunk))
