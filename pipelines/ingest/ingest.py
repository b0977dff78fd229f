"""The step `ingest`: reads a source, adds columns, splits, draws, checks and writes."""

from __future__ import annotations

import dataclasses
import tempfile
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.engines import LOCAL, Engine
from pipelines.ingest import log_state
from pipelines.ingest.behind import saved_state, served_columns, with_tables_of, with_types_of
from pipelines.ingest.column_checks import check_columns
from pipelines.ingest.context import check_context
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.drawn_rows import add_negatives, save_items
from pipelines.ingest.feature_tables import ITEMS, USERS, with_features
from pipelines.ingest.item_features import check_covered, read_items
from pipelines.ingest.log_state import LogState, StaticTable
from pipelines.ingest.make_columns import MadeColumns, no_rows
from pipelines.ingest.row_order import RowOrder
from pipelines.ingest.source import SPLITS, Source, SourceContext
from pipelines.ingest.sources import SOURCES
from pipelines.ingest.split_summary import SplitSummary
from pipelines.ingest.splitter import Splitter, read_chunks
from pipelines.ingest.static_tables import static_tables
from pipelines.ingest.table_checks import check_table
from pipelines.ingest.user_features import read_users
from pipelines.ingest.writer import SplitWriter
from pipelines.items import ItemTable, UserTable
from pipelines.storage.raw_columns import raw_columns
from pipelines.storage.request_rows import RequestLog
from recsys_attn.schema import Schema
from serving.state.definitions.definition import StateDefinition
from serving.state.saved import SavedState

REQUEST = "request"  # column of the request ids that ingest makes


def ingest(
    options: DataOptions,
    schema: Schema | None,
    seed: int,
    out: Path,
    progress: Callable[[int], object] | None = None,
    engine: Engine = LOCAL,
    named: Mapping[str, str] = types.MappingProxyType({}),
) -> dict[str, Any]:
    """Reads the source, adds made columns, splits, checks and writes the rows under `out`.

    With `data.items`, also writes the item table, and adds drawn negatives to the validation and
    test rows. With `data.users`, also writes the user table.

    Args:
        options: The `[data]` table.
        schema: The features and tasks; None writes all columns of the source.
        seed: Seed of a split by hash or user, and of the simulation.
        out: Folder that receives `train`, `valid` and `test`, and the state for a store.
        progress: Called with the total number of rows done.
        engine: Computes the aggregates.
        named: By key, further columns that the experiment names.

    Returns:
        For the manifest: `rows` by split, `columns` with their types, the column `request` or
        None; `labels`, the rows whose label is known and the positive ones, and `comparable`, the
        requests with a positive and a negative, by task and split; `times`, the first and last
        time by split, or None; `order`, the arguments of the train rows' `RowOrder`; `late`, the
        rows that are too late behind another run to count.

    Raises:
        PipelineError: A file, a column, a value or a split is invalid.
    """
    schema = None if schema is None else raw_columns(schema)
    source = _source(options, schema, seed, set(named.values()))
    items, users = _items(options, schema, source), _users(options, schema, source)
    saved = saved_state(options)
    if saved is not None:
        source = with_types_of(source, saved)
    is_behind = options.behind is not None
    if items is not None:
        source = with_features(source, items, ITEMS, is_behind)
    if users is not None:
        source = with_features(source, users, USERS, is_behind)
    served = served_columns(source, options)
    check_columns(source.without(served), options, schema, named)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".made-", dir=out) as folder:
        made = MadeColumns(options, engine, served, Path(folder))
        state = LogState(options.late, options.event_id)
        if saved is not None:
            state = LogState.behind(saved)
        rest = source.of_parts(
            [part for part in source.parts if part not in options.parts_of_state]
        )
        source = made.added(source.of_parts(options.parts_of_state), state)
        tables = static_tables(options, items, users)
        if options.made or tables:
            definition = _definition(options, tables)
            definition = definition.of_columns(pa.schema(state.columns.values()))
            stamps = options.stamps(options.parts_of_state)
            state.save(out / log_state.FOLDER, definition, tables, stamps)
        if rest.parts:
            behind = LogState.behind(SavedState.open(out / log_state.FOLDER))
            parts = {**source.parts, **made.added(rest, behind).parts}
            source = dataclasses.replace(source, parts=parts)
        if users is not None:
            users.save(out)
        written = _write(source, options, schema, seed, out, progress, items)
        return {**written, "late": state.late_rows}


def _write(
    source: Source,
    options: DataOptions,
    schema: Schema | None,
    seed: int,
    out: Path,
    progress: Callable[[int], object] | None,
    items: ItemTable | None,
) -> dict[str, Any]:
    """Splits, checks and writes the rows; returns what `ingest` returns."""
    splitter = Splitter(options.split, source, seed)
    log = RequestLog(source.request) if source.request and source.checks_requests else None
    draws = ("valid", "test") if options.items and options.items.negatives and schema else ()
    request_column = REQUEST if draws and source.request is None else None
    request = source.request or request_column
    summary = SplitSummary(schema, options, dataclasses.replace(source, request=request))
    rows_of_file: dict[str, int] = {}
    with SplitWriter(out, request) as writer:
        for part, where, table in read_chunks(source):
            split = splitter(part, table, where)
            if request_column is not None:
                table = _with_requests(table, request_column, where, sum(rows_of_file.values()))
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
                if name not in draws:
                    summary.add(name, rows)
            if progress is not None:
                progress(sum(writer.rows.values()))
        if log is not None:
            log.check()
        if not sum(writer.rows.values()):
            raise no_rows(options)
        splitter.check(writer.rows)
    if options.items is not None and schema is not None:
        items = save_items(out, items, options.items, schema, options.behind)
        for name in draws:
            writer.rows[name] = 0
            for rows in add_negatives(out, name, items, options.items, schema, request or "", seed):
                summary.add(name, rows)
                writer.rows[name] += rows.num_rows
    summary.check(may_draw=options.items is not None)
    return {
        "rows": writer.rows,
        "columns": writer.columns,
        "request": request,
        "labels": summary.labels,
        "comparable": summary.comparable,
        "times": summary.times,
        "order": dataclasses.asdict(RowOrder.of(options, source, writer.columns)),
    }


def _definition(options: DataOptions, tables: Sequence[StaticTable]) -> StateDefinition:
    """The features of the state, of no columns yet."""
    return StateDefinition(
        options.aggregates,
        options.histories,
        pa.schema([]),
        options.late,
        options.event_id,
        options.time_unit,
        tuple(table.features for table in tables),
    )


def _items(options: DataOptions, schema: Schema | None, source: Source) -> ItemTable | None:
    """The item table, if there is a file of it or the source has one."""
    if options.items is None or schema is None:
        return None
    if options.items.negatives:
        check_covered(options, schema, "data.items.negatives")
    if options.items.path is None and source.items is None:
        return None
    return read_items(options.items, schema, source.items)


def _users(options: DataOptions, schema: Schema | None, source: Source) -> UserTable | None:
    """The user table, if there is one."""
    if options.users is None or schema is None:
        return None
    return read_users(options.users, schema, source.users)


def _with_requests(table: pa.Table, name: str, where: str, first: int) -> pa.Table:
    """The table with a request id for each row, to which negatives are added."""
    if name in table.column_names:
        raise PipelineError(
            f"{where}: `data.items.negatives` makes a column {name!r} of request ids, and the "
            f'file has one. Set `data.request = "{name}"`, or rename the column.'
        )
    return table.append_column(name, pa.array(np.arange(first, first + table.num_rows)))


def _source(
    options: DataOptions, schema: Schema | None, seed: int, named: Collection[str]
) -> Source:
    source = SOURCES[options.source].read(options, SourceContext(schema, seed, named))
    source = with_tables_of(source, options)
    return dataclasses.replace(source, request=options.request or source.request)
