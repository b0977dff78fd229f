"""Gives all files of a source the same columns in the same order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Columns, Source, SourceFile
from recsys_attn.schema import Schema


def with_common_columns(source: Source, options: DataOptions, schema: Schema | None) -> Source:
    """The source with the columns that all files have with one type, and those of the options.

    Columns of the schema are checked later by `check_table`, which widens types.

    Raises:
        PipelineError: A column that the options name has different types in two files.
    """
    files = [file for part in source.parts.values() for file in part]
    schemas = {file.where: found for file in files if (found := file.schema) is not None}
    if len(schemas) < 2:
        return source
    first_file, first = next(iter(schemas.items()))
    checked = _of_schema(schema)
    named = _of_options(options)
    for where, found in schemas.items():
        for name in sorted((named - checked) & set(found.names) & set(first.names)):
            if found.field(name).type != first.field(name).type:
                raise PipelineError(
                    f"{where}: column {name!r}: expected {first.field(name).type} as in "
                    f"{first_file}, received {found.field(name).type}; give all files one type."
                )
    shared = set.intersection(
        *({(field.name, field.type) for field in found} for found in schemas.values())
    )
    kept = {name for name, _ in shared} | checked | named
    order = list(dict.fromkeys(name for found in schemas.values() for name in found.names))
    names = [name for name in order if name in kept]
    parts = {part: [_selected(file, names) for file in of] for part, of in source.parts.items()}
    return dataclasses.replace(source, parts=parts)


def _selected(file: SourceFile, names: list[str]) -> SourceFile:
    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in file.read(columns):
            yield table.select([name for name in names if name in table.column_names])

    def header() -> pa.Schema | None:
        columns = file.schema
        return columns and pa.schema([columns.field(n) for n in names if n in columns.names])

    return SourceFile(file.where, read, header)


def _of_schema(schema: Schema | None) -> set[str]:
    if schema is None:
        return set()
    names = {feature.name for feature in schema.features}
    for task in schema.tasks:
        names |= {task.label_column} | ({task.mask} if task.mask else set())
    return names


def _of_options(options: DataOptions) -> set[str]:
    names = [options.request, options.split.column]
    for history in options.histories:
        names += [history.of, history.by, history.time, history.where]
    for aggregate in options.aggregates:
        names += aggregate.columns
    return {name for name in names if name is not None}
