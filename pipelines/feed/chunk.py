"""Transformed rows in memory, from which batches are gathered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from pipelines.features import FittedFeatures
from pipelines.feed.batch_layout import ITEM_ROWS, LABELS, SEEN_ROWS, Arrays, Layout
from pipelines.feed.catalogue import ItemCatalogue
from pipelines.storage.dataset import RowGroups
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Schema, Task


@dataclass(frozen=True)
class Chunk:
    """Requests and their transformed rows.

    Attributes:
        layout: Names the columns of the blocks.
        blocks: Candidates' values and labels by row, contexts' by request.
        starts: First row of each request, and the number of rows: `(requests + 1,)`.
    """

    layout: Layout
    blocks: Arrays
    starts: np.ndarray

    @classmethod
    def of(
        cls,
        row_groups: Iterable[RowGroups],
        rows: int,
        fitted: FittedFeatures,
        request: str | None,
        labelled: bool = True,
        catalogue: ItemCatalogue | None = None,
    ) -> Self:
        """Transforms `rows` rows, a request's context only once.

        With a catalogue, also finds the rows of the candidates and events in it.
        """
        layout = Layout.of(fitted.schema, labelled)
        if catalogue is not None:
            layout = layout.with_rows(catalogue.events)
        # There are at most as many requests as rows; unwritten memory costs nothing.
        blocks = layout.empty(rows)
        names = [f.column_name for f in fitted.schema.features if f.side == "context"]
        histories = [] if catalogue is None else [h.name for h in catalogue.histories]
        read = list(dict.fromkeys(names + histories))
        done = requests = 0

        def add(portion: RowGroups) -> np.ndarray:
            nonlocal done, requests
            table = portion.table
            begins = group_starts(table, request, portion.rows)
            fill(blocks, layout, done, fitted.columns(table, "candidate"))
            if read:
                context = table.select(read)
                first_rows = context if request is None else context.take(pa.array(begins[:-1]))
                if names:
                    fill(blocks, layout, requests, fitted.columns(first_rows, "context"))
                if catalogue is not None and histories:
                    seen = catalogue.seen(first_rows)
                    blocks[SEEN_ROWS][requests : requests + len(seen)] = seen
            if catalogue is not None:
                items = catalogue.items.rows(table[catalogue.items.key])
                blocks[ITEM_ROWS][done : done + len(items), 0] = items
            if layout.tasks:
                blocks[LABELS][done : done + table.num_rows] = labels_of(table, fitted.schema.tasks)
            begins, done = done + begins[1:], done + table.num_rows
            requests += len(begins)
            return begins

        # A loop variable would keep a table alive while the next one is read; `map` does not.
        starts = np.concatenate([np.zeros(1, np.int64), *map(add, row_groups)])
        for block in layout.blocks_of("context"):
            blocks[block] = blocks[block][:requests]
        return cls(layout, blocks, starts)

    @classmethod
    def padding(cls, layout: Layout) -> Self:
        """One request of missing values and no candidates."""
        blocks = layout.empty(1)
        for block in blocks.values():
            block[:] = 0 if block.dtype == "int32" else np.nan
        return cls(layout, blocks, np.zeros(2, np.int64))

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.starts) - 1

    def lengths(self, requests: np.ndarray) -> np.ndarray:
        """Candidates of some requests."""
        return self._lengths.take(requests)

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def take(self, requests: np.ndarray) -> Chunk:
        """A copy of some requests in the given order."""
        first, lengths = self.starts.take(requests), self.lengths(requests)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(starts[-1]) + np.repeat(first - starts[:-1], lengths)
        context = self.layout.blocks_of("context")
        blocks = {
            name: block.take(requests if name in context else rows, axis=0)
            for name, block in self.blocks.items()
        }
        return Chunk(self.layout, blocks, starts)


def transform(
    table: pa.Table, fitted: FittedFeatures, request: str | None, labelled: bool = True
) -> Chunk:
    """A table's rows as one chunk."""
    portion = RowGroups(table, np.array([table.num_rows]))
    request = own_request(fitted.schema, request)
    return Chunk.of([portion], table.num_rows, fitted, request, labelled)


def own_request(schema: Schema, request: str | None) -> str | None:
    """The request column, or None if no feature is a candidate's: each row is a request."""
    return request if any(f.side == "candidate" for f in schema.features) else None


def group_starts(table: pa.Table, request: str | None, groups: np.ndarray) -> np.ndarray:
    """Row numbers at which requests begin, and the number of rows; row groups end requests."""
    starts = request_starts(table, request)
    return starts if request is None else np.union1d(starts, np.cumsum(groups))


def fill(
    blocks: Arrays, layout: Layout, begin: int, columns: Iterable[tuple[str, np.ndarray]]
) -> None:
    """Writes columns into blocks from a row on.

    Single columns are written together, for fewer passes over memory.
    """
    single: Arrays = {}
    for name, values in columns:
        block, place = layout.places[name]
        if isinstance(place, slice):
            blocks[block][begin : begin + len(values), place] = values
        else:
            if block not in single:
                shape = layout.single[block], len(values)
                single[block] = np.empty(shape, blocks[block].dtype)
            single[block][place] = values
    for block, across in single.items():
        count, rows = across.shape
        blocks[block][begin : begin + rows, :count] = across.T


def labels_of(table: pa.Table, tasks: tuple[Task, ...]) -> np.ndarray:
    """The labels `(rows, tasks)`; NaN is unknown."""
    labels = np.empty((table.num_rows, len(tasks)), "float32")
    for column, task in zip(labels.T, tasks, strict=True):
        values = table[task.label_column].combine_chunks().cast(pa.float32())
        column[:] = values.to_numpy(zero_copy_only=False)
        if task.mask is not None:
            mask = table[task.mask].combine_chunks().cast(pa.bool_()).fill_null(False)
            column[~mask.to_numpy(zero_copy_only=False)] = np.nan
    return labels
