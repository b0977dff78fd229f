"""The step `ingest`: reads a source, adds item features and histories, splits, and writes."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest import sequences, tables
from pipelines.ingest.checks import check_table
from pipelines.ingest.common_schema import with_common_columns
from pipelines.ingest.context import check_context
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import avazu, census_income, criteo, frappe, movielens, trivago
from pipelines.ingest.drawn_rows import add_negatives, count_positives
from pipelines.ingest.histories import Histories, check_histories
from pipelines.ingest.item_features import (
    check_covered,
    items_of_rows,
    read_items,
    with_items,
)
from pipelines.ingest.request_log import RequestLog
from pipelines.ingest.simulate.source import read as read_simulated
from pipelines.ingest.source import SPLITS, Columns, Source, SourceFile
from pipelines.ingest.splitter import Splitter, check_splits, read_chunks
from pipelines.ingest.writer import SplitWriter
from pipelines.items import ItemTable
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import shown
from recsys_attn.schema import Schema

_READERS: Mapping[str, Callable[[DataOptions], Source]] = {
    "movielens-1m": movielens.read,
    "census-income": census_income.read,
    "frappe": frappe.read,
    "trivago": trivago.read,
    "criteo": criteo.read,
    "avazu": avazu.read,
    "parquet": tables.read_parquet,
    "sequences": sequences.read,
}
REQUEST = "request"  # column of the request ids that ingest makes


def ingest(
    options: DataOptions,
    schema: Schema | None,
    seed: int,
    out: Path,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Reads the source, adds columns, splits, checks and writes the rows under `out`.

    With `data.items`, also writes the item table, and adds drawn negatives to the validation and
    test rows.

    Args:
        options: The `[data]` table.
        schema: The expected columns; None writes all columns of the source.
        seed: Seed of a split by hash or user, and of the simulation.
        out: Folder that receives `train`, `valid` and `test`.
        progress: Called with the total number of rows done.

    Returns:
        For the manifest: `rows` by split, `columns` with their types, the column `request` or
        None, and `labels`, the rows whose label is known and the positive ones, by task and
        split.

    Raises:
        PipelineError: A file, a column, a value or a split is invalid.
    """
    items = _items(options, schema)
    source = _source(options, schema, seed, items)
    made = REQUEST if source.request is None and options.items and options.items.negatives else None
    request = source.request or made
    splitter = Splitter(options.split, source, seed)
    log = RequestLog(source.request) if source.request and source.checks_requests else None
    labels = _LabelCounts(schema)
    rows_of_file: dict[str, int] = {}
    with SplitWriter(out, request) as writer:
        for part, where, table in read_chunks(source):
            split = splitter(part, table, where)
            if made is not None:
                table = _with_requests(table, made, where, sum(rows_of_file.values()))
            if log is not None:
                log.add(table, where)
            first_row = rows_of_file.get(where, 0)
            rows_of_file[where] = first_row + table.num_rows
            if schema is not None:
                table = check_table(table, schema, where, first_row=first_row)
                if source.request is not None:
                    check_context(table, schema, source.request, where, first_row)
            for index, name in enumerate(SPLITS):
                rows = table.filter(pa.array(split == index))
                writer.write(name, rows)
                labels.add(name, rows)
            if progress is not None:
                progress(sum(writer.rows.values()))
        if log is not None:
            log.check()
        if not sum(writer.rows.values()):
            raise _no_rows(options)
        check_splits(writer.rows, options.split)
    rows = dict(writer.rows)
    if options.items is not None and schema is not None:
        items = items or items_of_rows(
            options.items.key, DataSplit(out / "train").batches([options.items.key])
        )
        items = count_positives(items, DataSplit(out / "train"), schema.tasks)
        items.save(out)
        for name in ("valid", "test") if options.items.negatives else ():
            for drawn in add_negatives(
                out, name, items, options.items, schema, request or "", seed
            ):
                labels.add(name, drawn)
                rows[name] += drawn.num_rows
    labels.check(may_draw=items is not None)
    return {
        "rows": rows,
        "columns": writer.columns,
        "request": request,
        "labels": labels.counts,
    }


def _items(options: DataOptions, schema: Schema | None) -> ItemTable | None:
    """The item table, if there is a file of it."""
    if options.items is None or schema is None:
        return None
    items = read_items(options.items, schema) if options.items.path else None
    if options.items.negatives:
        check_covered(options.items, schema, "data.items.negatives")
    return items


def _with_requests(table: pa.Table, name: str, where: str, first: int) -> pa.Table:
    """The table with a request id for each row, to which negatives are added."""
    if name in table.column_names:
        raise PipelineError(
            f"{where}: `data.items.negatives` makes a column {name!r} of request ids, and the "
            f'file has one. Set `data.request = "{name}"`, or rename the column.'
        )
    return table.append_column(name, pa.array(np.arange(first, first + table.num_rows)))


def _source(
    options: DataOptions, schema: Schema | None, seed: int, items: ItemTable | None
) -> Source:
    if options.source == "simulate":
        source = read_simulated(options, seed)
    elif options.source == "csv":
        source = tables.read_csv(options, schema)
    else:
        source = _READERS[options.source](options)
    if options.source in ("csv", "parquet"):
        source = with_common_columns(source, options, schema)
    source = dataclasses.replace(source, request=options.request or source.request)
    if items is not None:
        source = with_items(source, items)
    return _with_histories(source, options) if options.histories else source


def _with_histories(source: Source, options: DataOptions) -> Source:
    """The source with its history columns; loads all rows."""
    tables: list[pa.Table] = []
    parts: dict[str, list[SourceFile]] = {part: [] for part in source.parts}
    first = 0
    for part, files in source.parts.items():
        for file in files:
            alone = dataclasses.replace(source, parts={part: [file]})
            chunks = [table for _, _, table in read_chunks(alone) if table.num_rows]
            if not chunks:
                continue
            check_histories(pa.concat_tables(chunks), options.histories, file.where)
            _check_joins(chunks[0].schema, tables, file.where)
            last = first + sum(table.num_rows for table in chunks)

            def read(columns: Columns, first: int = first, last: int = last) -> Iterator[pa.Table]:
                return histories.chunks(first, last)

            parts[part].append(SourceFile(file.where, read))
            tables += chunks
            first = last
    if not tables:
        raise _no_rows(options)
    histories = Histories(
        pa.concat_tables(tables, promote_options="permissive"), options.histories, source.request
    )
    return dataclasses.replace(source, parts=parts)


def _check_joins(schema: pa.Schema, tables: list[pa.Table], where: str) -> None:
    try:
        pa.unify_schemas(
            [*(table.schema for table in tables), schema], promote_options="permissive"
        )
    except pa.ArrowException as error:
        raise PipelineError(
            f"{where}: does not have the types of the other files, which histories need: {error}."
        ) from error


def _no_rows(options: DataOptions) -> PipelineError:
    given = ", ".join(map(shown, options.places())) or options.source
    return PipelineError(f"{given}: holds no rows; expected a file with rows.")


class _LabelCounts:
    """Known and positive labels by task and split: `counts[task][split] = [known, positive]`."""

    def __init__(self, schema: Schema | None) -> None:
        self._tasks = schema.tasks if schema else ()
        self.counts: dict[str, dict[str, list[int]]] = {
            task.name: {split: [0, 0] for split in SPLITS} for task in self._tasks
        }
        self._unmasked: Counter[tuple[str, str]] = Counter()

    def add(self, split: str, rows: pa.Table) -> None:
        for task in self._tasks:
            label = rows[task.label_column]
            if task.mask is not None:
                label = label.filter(rows[task.mask].cast(pa.bool_()))
                self._unmasked[task.name, split] += len(label)
            count = self.counts[task.name][split]
            count[0] += len(label) - label.null_count
            count[1] += pc.sum(label).as_py() or 0

    def check(self, may_draw: bool = False) -> None:
        """Raises an error if a split lacks positive or negative labels.

        Args:
            may_draw: Whether training may draw negatives, so that its rows need none.
        """
        for task, split in itertools.product(self._tasks, ("train", "valid")):
            known, positive = self.counts[task.name][split]
            if positive == known and known and may_draw and split == "train":
                continue
            if positive in (0, known):
                lacks = "positive" if positive == 0 else "negative"
                if may_draw and lacks == "negative":
                    raise PipelineError(
                        f"The task {task.name!r} has no negative rows in the split {split!r}. Set "
                        "`data.items.negatives`, such as 100, to draw them."
                    )
                masked = ""
                if task.mask is not None and not self._unmasked[task.name, split]:
                    masked = f"the mask {task.mask!r} is false in every row; "
                raise PipelineError(
                    f"The task {task.name!r} has no {lacks} rows in the split {split!r}: of "
                    f"{known} rows with a known label, {positive} are 1; {masked}check the column "
                    f"{task.label_column!r} and data.split."
                )
