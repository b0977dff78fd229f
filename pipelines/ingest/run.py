"""Reads a source, adds histories, splits, checks and writes: the step `ingest`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.ingest import (
    avazu,
    census_income,
    criteo,
    frappe,
    movielens,
    tables,
    trivago,
)
from pipelines.ingest.checks import check_table
from pipelines.ingest.histories import Histories
from pipelines.ingest.options import DataOptions
from pipelines.ingest.requests import RequestLog
from pipelines.ingest.simulate.source import read as read_simulated
from pipelines.ingest.source import Columns, File, Source
from pipelines.ingest.split import Splitter, check_splits, read_chunks
from pipelines.ingest.writer import SPLITS, SplitWriter
from recsys_attn.schema import Schema

_READERS: Mapping[str, Callable[[DataOptions], Source]] = {
    "movielens-1m": movielens.read,
    "census-income": census_income.read,
    "frappe": frappe.read,
    "trivago": trivago.read,
    "criteo": criteo.read,
    "avazu": avazu.read,
    "parquet": tables.read_parquet,
}


def ingest(
    options: DataOptions,
    schema: Schema | None,
    seed: int,
    out: Path,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Reads the source, adds histories, splits, checks and writes the rows under `out`.

    Args:
        options: The `[data]` table.
        schema: What the columns must be; None writes what the source holds.
        seed: Decides a split by hash or user, and what is simulated.
        out: Folder that receives `train`, `valid` and `test`.
        progress: Called with the number of rows done so far.

    Returns:
        For the manifest: `rows` by split, `columns` with their types, the column `request` or
        None, and `labels`, the rows whose label is known and the positive ones, by task and
        split.

    Raises:
        PipelineError: A file, a column, a value or a split is not as it must be.
    """
    source = _source(options, schema, seed)
    splitter = Splitter(options.split, source, seed)
    log = RequestLog(source.request) if source.request and source.checks_requests else None
    labels = _LabelCounts(schema)
    rows_of_file: dict[str, int] = {}
    with SplitWriter(out, source.request) as writer:
        for part, where, table in read_chunks(source):
            split = splitter(part, table, where)
            if log is not None:
                log.add(table)
            first_row = rows_of_file.get(where, 0)
            rows_of_file[where] = first_row + table.num_rows
            if schema is not None:
                table = check_table(table, schema, where, first_row=first_row)
            for index, name in enumerate(SPLITS):
                rows = table.filter(pa.array(split == index))
                writer.write(name, rows)
                labels.add(name, rows)
            if progress is not None:
                progress(sum(writer.rows.values()))
        if log is not None:
            log.check(options.source)
        check_splits(writer.rows, options.split)
        labels.check()
    return {
        "rows": writer.rows,
        "columns": writer.columns,
        "request": source.request,
        "labels": labels.counts,
    }


def _source(options: DataOptions, schema: Schema | None, seed: int) -> Source:
    if options.source == "simulate":
        source = read_simulated(options, seed)
    elif options.source == "csv":
        source = tables.read_csv(options, schema)
    else:
        source = _READERS[options.source](options)
    source = dataclasses.replace(source, request=options.request or source.request)
    return _with_histories(source, options) if options.histories else source


def _with_histories(source: Source, options: DataOptions) -> Source:
    """The source with its history columns; every row may be in another's past: all are loaded."""
    loaded = [(part, table) for part, _, table in read_chunks(source)]
    histories = Histories(
        pa.concat_tables(table for _, table in loaded), options.histories, options.source
    )
    parts: dict[str, list[File]] = {}
    first = 0
    for part in source.parts:
        last = first + sum(table.num_rows for name, table in loaded if name == part)

        def read(columns: Columns, first: int = first, last: int = last) -> Iterator[pa.Table]:
            return histories.chunks(first, last)

        parts[part] = [File(options.source, read)]
        first = last
    return dataclasses.replace(source, parts=parts)


class _LabelCounts:
    """Known and positive labels by task and split: `counts[task][split] = [known, positive]`."""

    def __init__(self, schema: Schema | None) -> None:
        self._tasks = schema.tasks if schema else ()
        self.counts: dict[str, dict[str, list[int]]] = {
            task.name: {split: [0, 0] for split in SPLITS} for task in self._tasks
        }

    def add(self, split: str, rows: pa.Table) -> None:
        for task in self._tasks:
            label = rows[task.label_column]
            if task.mask is not None:
                label = label.filter(rows[task.mask])
            count = self.counts[task.name][split]
            count[0] += len(label) - label.null_count
            count[1] += pc.sum(label).as_py() or 0

    def check(self) -> None:
        """Raises where there is nothing to learn: training and its AUC need both labels."""
        for task, split in itertools.product(self._tasks, ("train", "valid")):
            known, positive = self.counts[task.name][split]
            if positive in (0, known):
                lacks = "positive" if positive == 0 else "negative"
                raise PipelineError(
                    f"The task {task.name!r} has no {lacks} rows in the split {split!r}: of "
                    f"{known} rows with a known label, {positive} are 1; check the column "
                    f"{task.label_column!r} and data.split."
                )
