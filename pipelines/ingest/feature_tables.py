"""Reads a table of features by id, of items or of users, and joins it to a source's rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest import table_files
from pipelines.ingest.common_schema import common_files
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.table_checks import check_table
from pipelines.items.feature_table import FeatureTable
from pipelines.storage.columns import accepts, by_name
from pipelines.storage.filesystem import Storage, Where
from recsys_attn.schema import Categorical, RawType, Schema, Side
from serving.state.columns.missing import is_missing
from serving.state.definitions.static_features import Entity
from serving.state.errors import require_column


class Role(NamedTuple):
    """The rows of a table of features.

    Attributes:
        name: A row.
        side: The features that the table may have.
    """

    name: Entity
    side: Side

    def option(self, name: str) -> str:
        """A key of the experiment file."""
        return f"data.{self.name}s.{name}"


ITEMS, USERS = Role("item", "candidate"), Role("user", "context")


def feature_files(
    places: Sequence[Where], table: pa.Table | None, schema: Schema, role: Role
) -> list[SourceFile]:
    """The Parquet files of a path, and if there is none, the source's own table.

    Args:
        places: Files or folders.
        table: The source's own table, if it has one.
        schema: The features.
        role: The rows of the table.
    """
    if not places and table is not None:
        return [SourceFile.of_table(f"the source's {role.name}s", table)]
    return [
        file for place in places for file in table_files.parquet_files(Storage.of(place), schema)
    ]


def read_features(stored: Sequence[SourceFile], key: str, schema: Schema, role: Role) -> pa.Table:
    """The id and the features of some files, in the types of the schema.

    Args:
        stored: The files.
        key: The column of the id.
        schema: The features; an id that is none of them is text or a whole number.
        role: The rows of the table.

    Raises:
        PipelineError: The id is missing or repeated, or a feature has another type.
    """
    features = {name: f for name, f in by_name(schema).items() if f.side == role.side}
    common = common_files(stored, features, {key, *features})
    files = [file for file in common if file.schema is not None]
    if not files:
        names = ", ".join(file.where for file in stored) or f"`{role.option('path')}`"
        raise PipelineError(f"{names}: holds no {role.name}s; expected a row for each {role.name}.")
    try:
        table = pa.concat_tables([_columns(file, key, schema, role) for file in files])
    except pa.ArrowException as error:
        raise PipelineError(
            f"{files[0].where}: the files of `{role.option('path')}` do not all have the same "
            f"features: {error}"
        ) from None
    _check_ids(table[key], files[0].where, role)
    return table.combine_chunks()


def _columns(file: SourceFile, key: str, schema: Schema, role: Role) -> pa.Table:
    """The checked columns of one file."""
    table = pa.concat_tables(file.read(None))
    require_column(table.column_names, key, role.option("key"), file.where)
    features = [
        feature
        for feature in schema.features
        if feature.side == role.side and feature.name in table.column_names and feature.name != key
    ]
    id_feature = by_name(schema).get(key) or _id_feature(table, key, file.where, role)
    used = Schema((id_feature, *features), schema.tasks)
    names = [feature.name for feature in used.features]
    return check_table(table.select(names), used, file.where, labels=False)


def _id_feature(table: pa.Table, key: str, where: str, role: Role) -> Categorical:
    """An id that is no feature of the model."""
    kind = table.schema.field(key).type
    dtypes: tuple[RawType, ...] = ("string", "int64")
    for dtype in dtypes:
        if accepts(dtype, kind) and not pa.types.is_floating(kind):
            return Categorical(key, dtype=dtype, side=role.side)
    raise PipelineError(
        f"{where}: column {key!r} ({role.option('key')}): expected text or whole numbers. "
        f"Received: {kind}."
    )


def _check_ids(ids: pa.ChunkedArray, where: str, role: Role) -> None:
    missing = int(is_missing(ids).sum())
    if missing:
        raise PipelineError(
            f"{where}: the id of {role.option('key')} must not be missing. Received: {missing} "
            "nulls or empty ids."
        )
    counts = pc.value_counts(ids)
    twice = pc.greater(counts.field("counts"), 1)
    repeated = counts.filter(twice)
    if len(repeated):
        raise PipelineError(
            f"{where}: expected one row for each {role.name}. Received: "
            f"{repeated[0]['counts'].as_py()} rows of the {role.name} "
            f"{repeated[0]['values'].as_py()!r}"
            + (f", and {len(repeated) - 1} more such {role.name}s." if len(repeated) > 1 else ".")
        )


def with_features(
    source: Source, features: FeatureTable, role: Role, may_repeat: bool = False
) -> Source:
    """The source, whose rows have the features of their ids.

    Args:
        source: Rows.
        features: The features by id.
        role: The rows of their table.
        may_repeat: Whether rows may have features of the table, which stay as they are.
    """
    parts = {
        part: [_joined(file, features, role, may_repeat) for file in of]
        for part, of in source.parts.items()
    }
    return dataclasses.replace(source, parts=parts)


def _joined(file: SourceFile, features: FeatureTable, role: Role, may_repeat: bool) -> SourceFile:
    added = frozenset(features.features)
    if may_repeat and file.schema is not None:
        added -= frozenset(file.schema.names)
        if not added:
            return file

    def joined(table: pa.Table) -> pa.Table:
        require_column(table.column_names, features.key, role.option("key"), file.where)
        repeated = [name for name in features.features if name in table.column_names]
        if repeated and not may_repeat:
            raise PipelineError(
                f"{file.where}: the feature {repeated[0]!r} is in the rows and in the {role.name} "
                f"table ({role.option('path')}), which may disagree. Remove one of the columns, or "
                "rename it and add a feature for it."
            )
        return join_by_id(table, features, file.where)

    def read(columns: Columns) -> Iterator[pa.Table]:
        if columns is None:
            yield from map(joined, file.read(None))
        elif added.isdisjoint(columns):
            yield from file.read(columns)
        else:
            yield from map(joined, file.read((columns - added) | {features.key}))

    def header() -> pa.Schema | None:
        return None if file.schema is None else joined(file.schema.empty_table()).schema

    return SourceFile(file.where, read, header)


def join_by_id(table: pa.Table, features: FeatureTable, where: str) -> pa.Table:
    """Rows with the features of their ids that they lack.

    Raises:
        PipelineError: The ids of the rows are of another type.
    """
    kind = table.schema.field(features.key).type
    expected: RawType = "string" if pa.types.is_string(features.keys.type) else "int64"
    reason = "" if accepts(expected, kind) else "of another kind"
    if not reason:
        try:
            return features.join(table, kept=table.column_names)
        except pa.ArrowException as error:
            reason = str(error)
    raise PipelineError(
        f"{where}: column {features.key!r}: expected ids of type {features.keys.type}, as in the "
        f"table of their features. Received: {kind} ({reason})."
    )
