"""The item table of `data.items`, and the checks that items can be drawn from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions, ItemOptions
from pipelines.ingest.feature_tables import ITEMS, feature_files, read_features
from pipelines.ingest.source import SOURCES, SourceContext
from pipelines.items import ItemTable
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Where
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.schema import Categorical, Schema
from serving.state.columns.missing import with_nulls


def read_items(options: ItemOptions, schema: Schema, own: pa.Table | None) -> ItemTable:
    """The item table of `data.items.path`, or that of the source, without counts of positives.

    Raises:
        PipelineError: The id is no candidate feature, or is missing or repeated in the table; a
            feature has another type.
    """
    return item_table(options.places(), options.key, schema, own)


def item_table(
    places: Sequence[Where], key: str, schema: Schema, own: pa.Table | None = None
) -> ItemTable:
    """The item table of Parquet files, with the id and the candidate features that they have.

    Args:
        places: Files or folders.
        key: The column of the id.
        schema: The features.
        own: The table of a source, if there are no files.
    """
    table = read_features(feature_files(places, own, schema, ITEMS), key, schema, ITEMS)
    return ItemTable(key, table, np.zeros(table.num_rows, np.int64))


def check_key(options: ItemOptions, schema: Schema) -> None:
    """Checks that `data.items.key` names an id of the candidates.

    Raises:
        ValueError: The key names no such id.
    """
    features = [f for f in raw_columns(schema).features if f.name == options.key]
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


def check_covered(options: DataOptions, schema: Schema, key: str) -> None:
    """Checks that items can be drawn: that the item table has all features of a candidate.

    Args:
        options: The `[data]` table, with `[data.items]`.
        schema: The features.
        key: The key that asks for draws, for the error.

    Raises:
        PipelineError: A feature of the candidates is not in the item table.
    """
    items = options.items
    if items is None:
        return
    names = {items.key}
    for place in items.places():
        names |= set(DataSplit(place).columns)
    if items.path is None:
        own = SOURCES[options.source].read(options, SourceContext(raw_columns(schema), 0, ())).items
        names |= set() if own is None else set(own.column_names)
    for feature in schema.features:
        if feature.side == "candidate" and feature.column_name not in names:
            table = "data.items.path" if items.path else "data.items, which has no `path`"
            raise PipelineError(
                f"`{key}`: a drawn item has no value of the candidate feature "
                f"{feature.column_name!r}, which is not in the item table ({table}). Add the "
                'column there, remove the feature, or declare it with side = "context".'
            )


def items_of_rows(
    key: str, chunks: Iterator[pa.Table], earlier: ItemTable | None = None
) -> ItemTable:
    """An item table of the ids in some rows, and in that of an earlier run, in ascending order."""
    distinct = None if earlier is None else earlier.keys
    for chunk in chunks:
        ids = with_nulls(chunk[key]).combine_chunks().unique().drop_null()
        distinct = (
            ids if distinct is None else pa.concat_arrays([distinct.cast(ids.type), ids]).unique()
        )
    if distinct is None:
        raise PipelineError("The train split has no rows to take items from.")
    ids = distinct.take(pc.array_sort_indices(distinct))
    return ItemTable(key, pa.table({key: ids}), np.zeros(len(ids), np.int64))
