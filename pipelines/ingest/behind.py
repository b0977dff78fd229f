"""Rows behind the last row of another run: its state, its types, and columns made by a server."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa

from pipelines.common.artifacts import DATA
from pipelines.common.errors import PipelineError
from pipelines.ingest import log_state
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.items import ItemTable, UserTable
from pipelines.storage.exact_casts import cast_exactly, plain_column
from serving.state.saved import SavedState


def saved_state(options: DataOptions) -> SavedState | None:
    """The state of the run that `data.behind` names, if it has features over time.

    Raises:
        DataError: The run has no state.
    """
    if options.behind is None or not options.made:
        return None
    return SavedState.open(options.behind / DATA / log_state.FOLDER)


def served_columns(source: Source, options: DataOptions) -> frozenset[str]:
    """The columns to make that all rows have, as a server used them; behind no run there are none.

    Args:
        source: Rows, before columns are made.
        options: The `[data]` table.
    """
    schemas = [file.schema for files in source.parts.values() for file in files]
    of_files = [set(schema.names) for schema in schemas if schema is not None]
    if options.behind is None or not of_files:
        return frozenset()
    return frozenset(options.made).intersection(*of_files)


def with_tables_of(source: Source, options: DataOptions) -> Source:
    """The source with the users' and the items' features of the run that `data.behind` names.

    A table of ids alone is left out: without a table, the items are those of both runs.

    Args:
        source: Rows.
        options: The `[data]` table.
    """
    if options.behind is None:
        return source
    items, users = (of.load(options.behind / DATA) for of in (ItemTable, UserTable))
    if source.items is None and items is not None and items.features:
        source = dataclasses.replace(source, items=items.table)
    if source.users is None and users is not None:
        source = dataclasses.replace(source, users=users.table)
    return source


def with_types_of(source: Source, saved: SavedState) -> Source:
    """The source, whose columns have the types that the state has, as its keys and values do."""
    parts = {part: [_typed(file, saved) for file in of] for part, of in source.parts.items()}
    return dataclasses.replace(source, parts=parts)


def _typed(file: SourceFile, saved: SavedState) -> SourceFile:
    types = {field.name: field.type for field in saved.definition.columns}

    def typed(table: pa.Table) -> pa.Table:
        for place, field in enumerate(table.schema):
            kind = types.get(field.name, field.type)
            if field.type != kind:
                column = _cast(table[field.name], field.name, kind, file.where, saved)
                table = table.set_column(place, field.name, column)
        return table

    def read(columns: Columns) -> Iterator[pa.Table]:
        return map(typed, file.read(columns))

    def header() -> pa.Schema | None:
        return None if file.schema is None else typed(file.schema.empty_table()).schema

    return SourceFile(file.where, read, header)


def _cast(
    column: pa.ChunkedArray, name: str, kind: pa.DataType, where: str, saved: SavedState
) -> pa.ChunkedArray:
    try:
        return cast_exactly(plain_column(column), kind)
    except pa.ArrowException as error:
        raise PipelineError(
            f"{where}: column {name!r}: expected {kind}, as the state of `data.behind` has it "
            f"({saved.folder}). Received: {column.type}, of which a value would change ({error}). "
            "Give both logs one type."
        ) from None
