"""Held-out rows, and a model's inputs for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.audit.units import Inputs
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.feed.chunk import transform
from recsys_attn.schema import CANDIDATE_MASK, Schema

AT_ONCE = 256  # rows
EVENTS_AT_ONCE = 16_384


def drawn_rows(feed: Feed, count: int, seed: int) -> tuple[NDArray[np.intp], pa.Table]:
    """Some rows of a split, in their order: their numbers and their columns of features."""
    rows = feed.split.rows
    drawn = np.random.default_rng(seed).choice(rows, min(count, rows), replace=False)
    drawn.sort()
    tables, done = [], 0
    for table in feed.split.batches(feed.column_names):
        inside = drawn[(drawn >= done) & (drawn < done + len(table))]
        tables.append(table.take(pa.array(inside - done)))
        done += len(table)
    return drawn, pa.concat_tables(tables)


def rows_of(table: pa.Table, fitted: FittedFeatures) -> Iterator[Inputs]:
    """A model's inputs for the rows of a table, each a request of one candidate; in pieces."""
    at_once = _at_once(fitted.schema)
    for begin in range(0, len(table), at_once):
        piece = table.slice(begin, at_once)
        chunk = transform(piece, fitted, None, labelled=False)
        context = chunk.layout.blocks_of("context")
        blocks = {n: b if n in context else b[:, None] for n, b in chunk.blocks.items()}
        blocks[CANDIDATE_MASK] = np.ones((len(piece), 1), bool)
        inputs = chunk.layout.inputs(blocks)
        del inputs[CANDIDATE_MASK]
        yield inputs


def _at_once(schema: Schema) -> int:
    """Rows at once: few of those with long histories, of which each event meets each other."""
    lengths = [sequences[0].max_length for sequences in schema.histories.values()]
    return max(1, min(AT_ONCE, EVENTS_AT_ONCE // max(lengths, default=1)))
