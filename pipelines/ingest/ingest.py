"""The step `ingest`: reads a source, adds aggregates and histories, splits, checks and writes."""

from __future__ import annotations

import dataclasses
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.engines import LOCAL, Engine
from pipelines.ingest import tables
from pipelines.ingest.aggregates import state as aggregates_state
from pipelines.ingest.aggregates.batch import with_aggregates
from pipelines.ingest.checks import check_table
from pipelines.ingest.column_checks import check_columns
from pipelines.ingest.common_schema import with_common_columns
from pipelines.ingest.context import check_context
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import avazu, census_income, criteo, frappe, movielens, trivago
from pipelines.ingest.histories import Histories, check_histories
from pipelines.ingest.own_source import read_own
from pipelines.ingest.request_log import RequestLog
from pipelines.ingest.simulate.source import read as read_simulated
from pipelines.ingest.source import SOURCES, SPLITS, Columns, Source, SourceFile
from pipelines.ingest.split_summary import SplitSummary
from pipelines.ingest.splitter import Splitter, read_chunks
from pipelines.ingest.writer import SplitWriter
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
}


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

    Args:
        options: The `[data]` table.
        schema: The expected columns; None writes all columns of the source.
        seed: Seed of a split by hash or user, and of the simulation.
        out: Folder that receives `train`, `valid` and `test`, and the state of the aggregates.
        progress: Called with the total number of rows done.
        engine: Computes the aggregates.
        named: By key, further columns that the experiment names.

    Returns:
        For the manifest: `rows` by split, `columns` with their types, the column `request` or
        None; `labels`, the rows whose label is known and the positive ones, and `comparable`, the
        requests with a positive and a negative, by task and split; `times`, the first and last
        time by split, or None.

    Raises:
        PipelineError: A file, a column, a value or a split is invalid.
    """
    source = _source(options, schema, seed)
    check_columns(source, options, schema, named)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".made-", dir=out) as folder:
        if options.aggregates:
            source, state = with_aggregates(source, options.aggregates, engine, Path(folder))
            state.save(out / aggregates_state.FOLDER)
        if options.histories:
            source = _with_histories(source, options)
        return _write(source, options, schema, seed, out, progress)


def _write(
    source: Source,
    options: DataOptions,
    schema: Schema | None,
    seed: int,
    out: Path,
    progress: Callable[[int], object] | None,
) -> dict[str, Any]:
    """Splits, checks and writes the rows; returns what `ingest` returns."""
    splitter = Splitter(options.split, source, seed)
    log = RequestLog(source.request) if source.request and source.checks_requests else None
    summary = SplitSummary(schema, options, source)
    rows_of_file: dict[str, int] = {}
    with SplitWriter(out, source.request) as writer:
        for part, where, table in read_chunks(source):
            split = splitter(part, table, where)
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
                summary.add(name, rows)
            if progress is not None:
                progress(sum(writer.rows.values()))
        if log is not None:
            log.check()
        if not sum(writer.rows.values()):
            raise _no_rows(options)
        splitter.check(writer.rows)
        summary.check()
    return {
        "rows": writer.rows,
        "columns": writer.columns,
        "request": source.request,
        "labels": summary.labels,
        "comparable": summary.comparable,
        "times": summary.times,
    }


def _source(options: DataOptions, schema: Schema | None, seed: int) -> Source:
    if options.source == "simulate":
        source = read_simulated(options, seed)
    elif options.source == "csv":
        source = tables.read_csv(options, schema)
    else:
        source = _READERS.get(options.source, read_own)(options)
    if options.source in ("csv", "parquet") or options.source in SOURCES:
        source = with_common_columns(source, options, schema)
    return dataclasses.replace(source, request=options.request or source.request)


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
