"""Reads the item table of `data.items`, and joins its features to a source's rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest import table_files
from pipelines.ingest.common_schema import common_files
from pipelines.ingest.data_options import ItemOptions
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.table_checks import check_table
from pipelines.items import ItemTable
from pipelines.storage.columns import by_name
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Storage, Where
from recsys_attn.schema import Categorical, Schema
from serving.state.columns.missing import is_missing, with_nulls
from serving.state.errors import require_column


def read_items(options: ItemOptions, schema: Schema) -> ItemTable:
    """The item table of `data.items.path`, without counts of positives.

    Raises:
        PipelineError: The id is no candidate feature, or is missing or repeated in the table; a
            feature has another type.
    """
    return item_table(options.places(), options.key, schema)


def item_table(places: Sequence[Where], key: str, schema: Schema) -> ItemTable:
    """The item table of Parquet files, with the id and the candidate features that they have."""
    stored = [
        file for place in places for file in table_files.parquet_files(Storage.of(place), schema)
    ]
    features = {name: f for name, f in by_name(schema).items() if f.side == "candidate"}
    common = common_files(stored, features, features.keys())
    files = [file for file in common if file.schema is not None]
    if not files:
        names = ", ".join(file.where for file in stored) or "`data.items.path`"
        raise PipelineError(f"{names}: holds no items; expected a row for each item.")
    try:
        table = pa.concat_tables([_item_columns(file, key, schema) for file in files])
    except pa.ArrowException as error:
        raise PipelineError(
            f"{files[0].where}: the files of `data.items.path` do not all have the same features: "
            f"{error}"
        ) from None
    _check_ids(table[key], files[0].where)
    return ItemTable(key, table.combine_chunks(), np.zeros(table.num_rows, np.int64))


def _item_columns(file: SourceFile, key: str, schema: Schema) -> pa.Table:
    table = pa.concat_tables(file.read(None))
    require_column(table.column_names, key, "data.items.key", file.where)
    names = [key] + [
        feature.name
        for feature in schema.features
        if feature.side == "candidate"
        and feature.name in table.column_names
        and feature.name != key
    ]
    item_schema = Schema(tuple(schema[name] for name in names), schema.tasks)
    return check_table(table.select(names), item_schema, file.where, labels=False)


def _check_ids(ids: pa.ChunkedArray, where: str) -> None:
    missing = int(is_missing(ids).sum())
    if missing:
        raise PipelineError(
            f"{where}: the id of an item must not be missing. Received: {missing} nulls or empty "
            "ids in the column of `data.items.key`."
        )
    counts = pc.value_counts(ids)
    twice = pc.greater(counts.field("counts"), 1)
    repeated = counts.filter(twice)
    if len(repeated):
        raise PipelineError(
            f"{where}: expected one row for each item. Received: {repeated[0]['counts'].as_py()} "
            f"rows of the item {repeated[0]['values'].as_py()!r}"
            + (f", and {len(repeated) - 1} more such items." if len(repeated) > 1 else ".")
        )


def check_key(options: ItemOptions, schema: Schema) -> None:
    """Checks that `data.items.key` names an id of the candidates.

    Raises:
        ValueError: The key names no such id.
    """
    features = [f for f in schema.features if f.name == options.key]
    if (
        not features
        or not isinstance(features[0], Categorical)
        or features[0].side != "candidate"
        or features[0].multivalued
        or features[0].dtype == "float32"
    ):
        raise ValueError(
            "`data.items.key` must name a categorical feature of the candidates that holds one "
            f"string or whole number. Received: {options.key!r}"
        )


def check_covered(options: ItemOptions, schema: Schema, key: str) -> None:
    """Checks that items can be drawn: that the item table has all features of a candidate.

    Args:
        options: The `[data.items]` table.
        schema: The features.
        key: The key that asks for draws, for the error.

    Raises:
        PipelineError: A feature of the candidates is not in the item table.
    """
    names = {options.key}
    for place in options.places():
        names |= set(DataSplit(place).columns)
    for feature in schema.features:
        if feature.side == "candidate" and feature.name not in names:
            table = "data.items.path" if options.path else "data.items, which has no `path`"
            raise PipelineError(
                f"`{key}`: a drawn item has no value of the candidate feature "
                f"{feature.name!r}, which is not in the item table ({table}). Add the column "
                'there, remove the feature, or declare it with side = "context".'
            )


def with_items(source: Source, items: ItemTable) -> Source:
    """The source, whose rows have the features of their items."""
    parts = {part: [_joined(file, items) for file in of] for part, of in source.parts.items()}
    return dataclasses.replace(source, parts=parts)


def _joined(file: SourceFile, items: ItemTable) -> SourceFile:
    def joined(table: pa.Table) -> pa.Table:
        require_column(table.column_names, items.key, "data.items.key", file.where)
        repeated = [name for name in items.features if name in table.column_names]
        if repeated:
            raise PipelineError(
                f"{file.where}: the feature {repeated[0]!r} is in the rows and in the item table "
                "(data.items.path), which may disagree. Remove one of the columns, or rename "
                "it and add a feature for it."
            )
        try:
            return items.join(table)
        except pa.ArrowException as error:
            raise PipelineError(
                f"{file.where}: column {items.key!r}: expected values of type "
                f"{items.keys.type}, as in the item table. Received: "
                f"{table[items.key].type} ({error})."
            ) from None

    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in file.read(columns):
            yield table if columns is not None else joined(table)  # some: those for the split

    def header() -> pa.Schema | None:
        return None if file.schema is None else joined(file.schema.empty_table()).schema

    return SourceFile(file.where, read, header)


def items_of_rows(key: str, chunks: Iterator[pa.Table]) -> ItemTable:
    """An item table of the ids in some rows, in ascending order."""
    distinct: pa.Array | None = None
    for chunk in chunks:
        ids = with_nulls(chunk[key]).combine_chunks().unique().drop_null()
        distinct = ids if distinct is None else pa.concat_arrays([distinct, ids]).unique()
    if distinct is None:
        raise PipelineError("The train split has no rows to take items from.")
    ids = distinct.take(pc.array_sort_indices(distinct))
    return ItemTable(key, pa.table({key: ids}), np.zeros(len(ids), np.int64))
