"""Streams a split as batches of requests, decoded in the background."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.feed.batch import BATCH_REQUESTS, PADDED_CANDIDATES, Batch, BatchSize, assemble
from pipelines.feed.batch_layout import Layout
from pipelines.feed.chunk import Chunk, own_request
from pipelines.feed.negatives import Negatives
from pipelines.feed.order import SHUFFLE_ROWS, START, Order, Position, ShardPosition
from pipelines.feed.prefetch import Prefetcher
from pipelines.feed.request_counts import RequestCounts
from pipelines.feed.shard import Shard, ShardBatch
from pipelines.storage.dataset import DataSplit, Reader

_BATCHES_AHEAD = 4


@dataclass(frozen=True)
class Feed:
    """Batches of a split in an order that follows from seed and epoch.

    Row groups are shuffled over the whole split, dealt to `shards` shards and gathered into chunks
    whose requests are shuffled; batches are cut across the borders of chunks. A step takes one
    batch of each shard. A batch of the feed concatenates one batch from each of its shards
    `shard_indices`, so a worker with two shards sees in each step what two workers with one shard
    see together. An exhausted shard contributes nothing; a feed whose shards are all exhausted
    yields a one-request padding batch until every shard of the split is done, so that all workers
    take the same number of steps.

    For each shard, the current chunk and the next one are in memory.

    Args:
        split: The Parquet files.
        fitted: Schema and transforms.
        request: Column of the request id; None: every row is a request.
        batch_size: Requests of a shard's batch; fewer if the padded batch would exceed
            `candidates`.
        seed: Seed of the order; None keeps the order of the files.
        shuffle_rows: Rows that are shuffled together, at least a row group. Raise it for sorted
            data; memory grows with it.
        candidates: Maximum number of candidates of a shard's batch, padding included; a longer
            request is a batch alone.
        lengths: Allowed values of T, ascending; None: the longest request's length.
        shards: Number of shards of the split.
        shard_indices: Shards of this feed.
        negatives: Draws candidates for each request; None: only those of the split. The draws
            follow from the seed, the epoch, the shard and the step.

    Example::

        position = Position()
        while position.epoch < epochs:
            for batch in feed.batches(position):
                train(batch.inputs, batch.labels, batch.weights)
                position = batch.position  # saved by a checkpoint
    """

    split: DataSplit
    fitted: FittedFeatures
    request: str | None
    batch_size: int = BATCH_REQUESTS
    seed: int | None = None
    shuffle_rows: int = SHUFFLE_ROWS
    candidates: int = PADDED_CANDIDATES
    lengths: tuple[int, ...] | None = None
    shards: int = 1
    shard_indices: tuple[int, ...] = (0,)
    negatives: Negatives | None = None

    def __post_init__(self) -> None:
        indices = self.shard_indices
        if not indices or len({*indices} & {*range(self.shards)}) < len(indices):
            raise ValueError(
                f"`shard_indices` must be different numbers below shards={self.shards}. Received: "
                f"shard_indices={indices}"
            )

    @property
    def column_names(self) -> list[str]:
        """Columns that are read."""
        schema = self.fitted.schema
        names = [feature.column_name for feature in schema.features]
        for task in schema.tasks:
            names += [task.label_column] + ([task.mask] if task.mask else [])
        if self.negatives:
            catalogue = self.negatives.catalogue
            names += [catalogue.items.key, *(history.name for history in catalogue.histories)]
        return list(dict.fromkeys(names + ([self._request] if self._request else [])))

    @property
    def order(self) -> Order:
        """The order of row groups and requests."""
        return Order(self.split.footers.rows, self.seed, self.shuffle_rows, self.shards)

    @cached_property
    def counts(self) -> RequestCounts:
        """Requests of each row group; takes a pass over the request column, if there is one."""
        return RequestCounts.read(self.split, self._request)

    def steps(self, epoch: int) -> int:
        """Number of batches of the epoch, the same for every feed of the split."""
        return self._steps(epoch)

    @cached_property
    def _steps(self) -> Callable[[int], int]:
        return lru_cache(lambda epoch: self.counts.steps(self.order, epoch, self._size))

    def batches(self, start: Position = START) -> Prefetcher[Batch]:
        """The batches of `start`'s epoch from `start` on, made by a thread.

        A batch's `position` is the start of the batch after it; after the last batch, the start of
        the next epoch. Iterate to the end, or close the iterator.

        Raises:
            PipelineError: A file is damaged, has changed or lacks a column; while iterating.
        """
        if not len(self.split.footers):
            raise PipelineError(f"{self.split.footers.storage.name} holds no rows.")
        return Prefetcher(self._stream(start), _BATCHES_AHEAD, "batches")

    def __iter__(self) -> Prefetcher[Batch]:
        return self.batches()

    @property
    def _request(self) -> str | None:
        return own_request(self.fitted.schema, self.request)

    @property
    def _size(self) -> BatchSize:
        drawn = self.negatives.count if self.negatives else 0
        return BatchSize(self.batch_size, self.candidates, self.lengths, drawn)

    def _stream(self, start: Position) -> Generator[Batch]:
        chunks = self.order.chunks(start.epoch)
        places = start.places or ((0, 0),) * len(self.shard_indices)
        layout, step = Layout.of(self.fitted.schema), start.step
        if self.negatives is not None:
            layout = layout.with_rows(self.negatives.catalogue.events)
        with ExitStack() as stack:
            shards = [
                self._shard(start.epoch, index, chunks[index], place, stack)
                for index, place in zip(self.shard_indices, places, strict=True)
            ]
            batches = [next(shard, None) for shard in shards]
            while self._goes_on(batches, start.epoch, step):
                places = tuple(b.next if b else p for b, p in zip(batches, places, strict=True))
                pieces = [piece for batch in batches if batch for piece in batch.pieces]
                requests = [sum(len(r) for _, r in b.pieces) if b else 0 for b in batches]
                blocks = assemble(pieces or [(Chunk.padding(layout), np.arange(1))], self._size)
                # Frees a chunk that is used up before the next one is taken.
                batches.clear()
                pieces.clear()
                drawn = None
                if self.negatives is not None:
                    shards_requests = zip(self.shard_indices, requests, strict=True)
                    seeds = [((start.epoch, 1 + shard, step), n) for shard, n in shards_requests]
                    drawn = self.negatives.add(blocks, seeds)
                batches, step = [next(shard, None) for shard in shards], step + 1
                after = Position(start.epoch, step, places)
                if not self._goes_on(batches, start.epoch, step):
                    after = Position(start.epoch + 1)
                yield Batch(blocks, Layout.of(self.fitted.schema), after, drawn)

    def _goes_on(self, batches: list[ShardBatch | None], epoch: int, step: int) -> bool:
        """Whether any shard of the split has batches left; counts other feeds' only at the end."""
        if any(batches) or len(self.shard_indices) == self.shards:
            return any(batches)
        return step < self.steps(epoch)

    def _shard(
        self,
        epoch: int,
        number: int,
        chunks: list[np.ndarray],
        start: ShardPosition,
        stack: ExitStack,
    ) -> Iterator[ShardBatch]:
        """A shard's batches from `start` on; the next chunk is decoded in the background."""
        left = chunks[start[0] :]
        if not left:  # more shards than row groups: needs no thread
            return iter(())
        decoded = stack.enter_context(Prefetcher(self._decode(left), 1, "chunks"))
        return Shard(self.order, epoch, number, len(chunks), self._size).batches(decoded, start)

    def _decode(self, chunks: list[np.ndarray]) -> Generator[Chunk]:
        rows, features = self.split.footers.rows, self.fitted.schema.features
        histories = self.negatives.catalogue.histories if self.negatives else ()
        encoded = [f.column_name for f in (*features, *histories) if f.dtype == "string"]
        with Reader(self.split.footers, self.column_names, encoded) as reader:
            for numbers in chunks:
                row_groups = reader.row_groups(numbers)
                yield Chunk.of(
                    row_groups,
                    int(rows[numbers].sum()),
                    self.fitted,
                    self._request,
                    catalogue=self.negatives.catalogue if self.negatives else None,
                )
        pa.default_memory_pool().release_unused()
