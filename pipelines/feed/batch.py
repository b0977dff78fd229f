"""Batches of requests: their size and their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipelines.feed.batch_layout import LABELS, Arrays, Layout
from pipelines.feed.chunk import Chunk
from pipelines.feed.order import START, Position
from recsys_attn.schema import CANDIDATE_MASK

# Limits of the candidates of a batch with its padding, which bound the memory of a step: a
# thousand requests, padded to a request of thousands of candidates, would not fit.
PADDED_CANDIDATES = 65_536
BATCH_REQUESTS = 1024
TRAINING_CANDIDATES = 4 * PADDED_CANDIDATES
# 1, 2, 3, 4, 6, 8, 12, ...: padding adds at most half, and few shapes are compiled.
LENGTHS = (1, *sorted(size << k for k in range(16) for size in (2, 3)))
Piece = tuple[Chunk, np.ndarray]


@dataclass(frozen=True)
class BatchSize:
    """Limits of a batch.

    Args:
        requests: Maximum number of requests.
        candidates: Maximum number of candidates, padding included; a longer request is a batch
            alone.
        lengths: Allowed values of T, ascending: the longest request is padded to the next one; a
            request longer than all keeps its length. None: T is the longest request's length.
    """

    requests: int
    candidates: int = PADDED_CANDIDATES
    lengths: tuple[int, ...] | None = None

    def padded(self, longest: np.ndarray) -> np.ndarray:
        """T by the number of candidates of a batch's longest request."""
        longest = np.maximum(longest, 1)
        if self.lengths is None:
            return longest
        lengths = np.array(self.lengths)
        places = np.searchsorted(lengths, longest)
        return np.where(longest > lengths[-1], longest, lengths.take(places, mode="clip"))

    def cut(self, lengths: np.ndarray, more: bool = False) -> Iterator[tuple[int, int]]:
        """First and last (exclusive) request of each batch, in order.

        Args:
            lengths: Candidates of each request.
            more: Whether other requests follow; an incomplete last batch is then left out.
        """
        begin = 0
        while begin < len(lengths):
            longest = np.maximum.accumulate(lengths[begin : begin + self.requests])
            padded = self.padded(longest) * np.arange(1, len(longest) + 1)
            count = max(1, int(np.searchsorted(padded, self.candidates, side="right")))
            if more and begin + count == len(lengths) and count < self.requests:
                return
            yield begin, begin + count
            begin += count


@dataclass(frozen=True)
class Batch:
    """Inputs and labels of requests, candidates padded to one length.

    Attributes:
        blocks: The layout's blocks, `(B, columns)` for contexts and `(B, T, columns)` for
            candidates and labels, and `candidate_mask` `(B, T)`.
        layout: Names the blocks' columns.
        position: Of the first request after it.
    """

    blocks: Arrays
    layout: Layout
    position: Position = START

    @cached_property
    def inputs(self) -> Arrays:
        """A model's inputs by name: views of the blocks."""
        return self.layout.inputs(self.blocks)

    @cached_property
    def labels(self) -> Arrays:
        """Labels `(B, T)` by task; 0 if unknown."""
        return {t: np.nan_to_num(label) for t, label in self.layout.labels(self.blocks).items()}

    @cached_property
    def weights(self) -> Arrays:
        """`(B, T)` by task: 1 for a known label, else 0."""
        labels = self.layout.labels(self.blocks)
        return {task: (~np.isnan(label)).astype("float32") for task, label in labels.items()}

    @property
    def requests(self) -> int:
        return len(self.blocks[CANDIDATE_MASK])

    @property
    def rows(self) -> int:
        return int(self.blocks[CANDIDATE_MASK].sum())


def assemble(pieces: Sequence[Piece], size: BatchSize) -> Arrays:
    """Gathers requests of one or several chunks into a batch's blocks."""
    longest = max(np.max(chunk.lengths(requests)) for chunk, requests in pieces)
    parts = [_padded(chunk, requests, int(size.padded(longest))) for chunk, requests in pieces]
    return {
        name: part if len(parts) == 1 else np.concatenate([other[name] for other in parts])
        for name, part in parts[0].items()
    }


def _padded(chunk: Chunk, requests: np.ndarray, length: int) -> Arrays:
    """Blocks of some requests; padding repeats the request's first candidate."""
    first, lengths = chunk.starts.take(requests)[:, None], chunk.lengths(requests)[:, None]
    column = np.arange(length)
    inside = column < lengths
    rows = np.where(inside, first + column, first)
    context = chunk.layout.blocks_of("context")
    blocks = {
        name: block.take(requests if name in context else rows, axis=0)
        for name, block in chunk.blocks.items()
    }
    if LABELS in blocks and not inside.all():
        blocks[LABELS][~inside] = np.nan
    return {**blocks, CANDIDATE_MASK: inside}
