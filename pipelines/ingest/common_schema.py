"""Gives all files of a source the same columns in the same order."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.storage.columns import by_name
from pipelines.storage.common_types import CommonTypes
from recsys_attn.schema import Feature, Schema


def with_common_columns(
    source: Source, options: DataOptions, schema: Schema | None, named: Collection[str] = ()
) -> Source:
    """The source with the columns that all files have, and those that the experiment names.

    Args:
        source: Files of any columns.
        options: The `[data]` table.
        schema: The features and tasks, if there are any.
        named: Columns that other tables of the experiment name.

    Raises:
        PipelineError: A column that the experiment names has types that do not fit together.
    """
    files = [file for part in source.parts.values() for file in part]
    needed = _of_schema(schema) | _of_options(options) | set(named)
    common = iter(common_files(files, by_name(schema), needed))
    return dataclasses.replace(
        source, parts={part: [next(common) for _ in of] for part, of in source.parts.items()}
    )


def common_files(
    files: Sequence[SourceFile], features: Mapping[str, Feature], needed: Collection[str]
) -> list[SourceFile]:
    """Files whose columns have the same order and types.

    Args:
        files: The files.
        features: The features by column, whose types count where files differ.
        needed: Columns that are read. Of others, those remain that all files have, with one type:
            no value of theirs may stop the work.

    Raises:
        PipelineError: The types of a needed column do not fit together.
    """
    schemas = [(file.where, schema) for file in files if (schema := file.schema) is not None]
    types = CommonTypes.of(schemas, features)
    types.check(name for name in types.names if name in needed)
    shared = set(types.of_one_type).intersection(*(schema.names for _, schema in schemas))
    names = [name for name in types.names if name in shared or name in needed]
    return [_read_as(file, types, names) for file in files]


def _read_as(file: SourceFile, types: CommonTypes, names: Sequence[str]) -> SourceFile:
    def read(columns: Columns) -> Iterator[pa.Table]:
        first_row = 0
        for table in filter(len, file.read(columns)):  # one without rows may have any types
            shared = table.select([name for name in names if name in table.column_names])
            yield types.read(shared, file.where, first_row)
            first_row += table.num_rows

    def header() -> pa.Schema | None:
        columns = file.schema
        if columns is None:
            return None
        return pa.schema([types.schema.field(name) for name in names if name in columns.names])

    return SourceFile(file.where, read, header)


def _of_schema(schema: Schema | None) -> set[str]:
    if schema is None:
        return set()
    names = {feature.name for feature in schema.features}
    for task in schema.tasks:
        names |= {task.label_column} | ({task.mask} if task.mask else set())
    return names


def _of_options(options: DataOptions) -> set[str]:
    names = [options.request, options.split.column, options.event_id]
    names += [table.key for table in (options.items, options.users) if table is not None]
    for history in options.histories:
        names += [history.of, history.by, history.time, history.where]
    for aggregate in options.aggregates:
        names += aggregate.columns
    return {name for name in names if name is not None}
