"""Gives the columns of times one type over all files of a source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.common.times import as_time_type, check_time_type, common_time_type
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Columns, Source, SourceFile


def with_common_times(source: Source, options: DataOptions) -> Source:
    """The source whose files have the same type of each column that the options name as a time.

    Raises:
        PipelineError: A column has no type that holds the times of all files.
    """
    files = [file for part in source.parts.values() for file in part]
    kinds: dict[str, tuple[pa.DataType, str]] = {}
    for name, key in times_of(options).items():
        of_file = {
            file.where: file.schema.field(name).type
            for file in files
            if file.schema is not None and name in file.schema.names
        }
        if len(set(of_file.values())) > 1:
            kinds[name] = common_type(of_file, name, key), key
    if not kinds:
        return source
    parts = {part: [_cast(file, kinds) for file in of] for part, of in source.parts.items()}
    return dataclasses.replace(source, parts=parts)


def common_type(kinds: dict[str, pa.DataType], name: str, key: str) -> pa.DataType:
    """The type of a column of times over all files.

    Args:
        kinds: The type in each file.
        name: The column.
        key: The key that names it.

    Raises:
        PipelineError: A file has another kind of times than the first.
    """
    (first, kind), *_ = kinds.items()
    for where, other in kinds.items():
        check_time_type(other, name, key, where)
        if common_time_type([kind, other]) is None:
            raise PipelineError(
                f"{where}: column {name!r} ({key}): expected times like the {kind} of {first}. "
                f"Received: {other}. Give all files one type."
            )
    return common_time_type(kinds.values()) or kind


def times_of(options: DataOptions) -> dict[str, str]:
    """The columns of times, each with the key that names it."""
    found = {
        history.time: f"data.histories {history.name!r}: time" for history in options.histories
    }
    for aggregate in options.aggregates:
        found[aggregate.time] = f"data.aggregates {aggregate.name!r}: time"
    if options.split.by == "time" and options.split.column:
        found[options.split.column] = "data.split.column"
    return found


def _cast(file: SourceFile, kinds: dict[str, tuple[pa.DataType, str]]) -> SourceFile:
    def cast(table: pa.Table) -> pa.Table:
        for name, (kind, key) in kinds.items():
            if name in table.column_names:
                column = as_time_type(table[name], kind, name, key, file.where)
                table = table.set_column(table.column_names.index(name), name, column)
        return table

    def read(columns: Columns) -> Iterator[pa.Table]:
        yield from map(cast, file.read(columns))

    def header() -> pa.Schema | None:
        return None if file.schema is None else cast(file.schema.empty_table()).schema

    return SourceFile(file.where, read, header)
