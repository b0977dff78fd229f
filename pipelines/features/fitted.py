"""All fitted transforms of a schema, from raw columns to a model's inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import read_json, write_json
from pipelines.common.errors import PipelineError
from pipelines.features import numeric as numeric
from pipelines.features import quantile as quantile
from pipelines.features import unfitted as unfitted
from pipelines.features import vocabulary as vocabulary
from pipelines.features.lists import check_aligned, drop_missing, flatten_list, pad_last
from pipelines.features.transforms import TRANSFORMS, Fitter, Transform
from pipelines.features.unseen import UnseenValues, load_unseen, save_unseen
from pipelines.items import ItemTable, UserTable
from pipelines.storage.columns import arrow_type
from pipelines.storage.dataset import open_parquet
from pipelines.storage.exact_casts import with_values
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.id_transforms import OwnTransform
from recsys_attn.number_encodings.fields import ENCODINGS
from recsys_attn.schema import (
    Categorical,
    Feature,
    Numeric,
    RawType,
    Schema,
    Sequence,
    Side,
    Task,
    is_listed,
)
from serving.state.columns.arrow_kinds import is_list, of_values
from serving.state.columns.missing import with_nulls

_INTEGERS, _FLOATS = arrow_type("int64"), arrow_type("float32")


def fitter(feature: Feature) -> Fitter:
    """The fitter of a feature's transform."""
    if isinstance(feature, Numeric):
        shares = ENCODINGS[feature.encoding].shares(feature.bins)
        return TRANSFORMS["numeric"](feature.transform, shares)
    transform = feature.transform
    if isinstance(transform, OwnTransform):
        return TRANSFORMS[transform.name](**transform.options)
    options = dataclasses.asdict(transform)
    return TRANSFORMS[options.pop("kind")](**options)


@dataclass(frozen=True)
class FittedFeatures:
    """A schema with known table sizes, and the transform of each table's owner.

    Args:
        schema: The features of the model.
        transforms: The transforms by the names of the tables' owners.
        items: The item table, if the experiment has one.
        users: The user table, if it has one.
        unseen: New values of the last train rows and of the validation rows, by feature.
    """

    schema: Schema
    transforms: Mapping[str, Transform]
    items: ItemTable | None = None
    users: UserTable | None = None
    unseen: Mapping[str, UnseenValues] = dataclasses.field(default_factory=dict)

    @property
    def item_features(self) -> tuple[str, ...]:
        """Features whose values come from the item table."""
        names = self.items.features if self.items else ()
        return tuple(f.name for f in self.schema.features if f.column_name in names)

    @property
    def raw_schema(self) -> Schema:
        """The columns that a request or a row to score has: all but those of the item table."""
        if self.items is None or not self.item_features:
            return raw_columns(self.schema)
        features = [f for f in self.schema.features if f.name not in self.item_features]
        if self.items.key not in [f.column_name for f in features]:  # the model leaves the id out
            is_text = pa.types.is_string(self.items.keys.type)
            features.append(Categorical(self.items.key, dtype="string" if is_text else "int64"))
        return self._raw(features)

    @property
    def context_schema(self) -> Schema:
        """The columns of the context, for raw rows without candidates."""
        return self._raw([f for f in self.schema.features if f.side == "context"])

    def _raw(self, kept: Ordered[Feature]) -> Schema:
        """A schema of raw columns, in which a sequence needs no other feature's table."""
        names = {feature.name for feature in kept}
        features: list[Feature] = []
        for feature in kept:
            if isinstance(feature, Sequence) and feature.shares not in {None, *names}:
                owner = self.schema[feature.shares or ""]
                transform = owner.transform if isinstance(owner, Categorical) else feature.transform
                feature = replace(feature, shares=None, transform=transform)
            features.append(feature)
        return raw_columns(Schema(tuple(features), self.schema.tasks))

    def joined(self, table: pa.Table) -> pa.Table:
        """Raw rows with the features of their items; columns of these names are replaced."""
        return self.items.join(table) if self.items and self.item_features else table

    def encoded_items(self) -> dict[str, np.ndarray]:
        """Model inputs of all items `(items, ...)`, of the features that the item table has."""
        if self.items is None:
            return {}
        names = self.items.table.column_names
        others = tuple(f.name for f in self.schema.features if f.column_name not in names)
        return self.without(others).apply(self.items.table, "candidate")

    def transform_of(self, name: str) -> Transform:
        """The transform of a feature, or of the feature whose table it shares."""
        return self.transforms[self.schema.table_owner(name)]

    def apply(self, table: pa.Table, side: Side) -> dict[str, np.ndarray]:
        """Model inputs of one side's features, one row per row of `table` of raw columns."""
        return dict(self.columns(table, side))

    def columns(self, table: pa.Table, side: Side) -> Iterator[tuple[str, np.ndarray]]:
        """Names and inputs of one side's features, one by one."""
        for feature in self.schema.features:
            if feature.side != side or isinstance(feature, Sequence):
                continue
            transform = self.transforms[feature.name]
            values = _encoded_column(table, feature)
            if is_listed(feature):
                flat, offsets = flatten_list(values)
                (ids,), offsets = drop_missing([transform.apply(flat)], offsets)
                yield feature.name, pad_last(ids, offsets, feature.max_length)
            else:
                yield feature.name, transform.apply(values)
        if side == "context":
            for sequences in self.schema.histories.values():
                yield from self._history(table, sequences)

    def _history(
        self, table: pa.Table, sequences: tuple[Sequence, ...]
    ) -> Iterator[tuple[str, np.ndarray]]:
        flat = [flatten_list(_encoded_column(table, sequence)) for sequence in sequences]
        check_aligned([s.name for s in sequences], [offsets for _, offsets in flat])
        ids = [
            self.transform_of(sequence.name).apply(values)
            for sequence, (values, _) in zip(sequences, flat, strict=True)
        ]
        ids, offsets = drop_missing(ids, flat[0][1])
        for sequence, part in zip(sequences, ids, strict=True):
            yield sequence.name, pad_last(part, offsets, sequence.max_length)

    def without(self, names: tuple[str, ...]) -> FittedFeatures:
        """These transforms, without some features."""
        features = tuple(f for f in self.schema.features if f.name not in names)
        unseen = {name: of for name, of in self.unseen.items() if name not in names}
        return replace(self, schema=Schema(features, self.schema.tasks), unseen=unseen)

    def with_tasks(self, tasks: tuple[Task, ...]) -> FittedFeatures:
        """These transforms, of which none depends on the tasks, for other tasks."""
        return replace(self, schema=Schema(self.schema.features, tasks))

    def save(self, folder: Path) -> None:
        """Writes `features.json`, a Parquet file per vocabulary, and the tables by id."""
        if self.items is not None:
            self.items.save(folder)
        if self.users is not None:
            self.users.save(folder)
        save_unseen(self.unseen, folder)
        states: dict[str, Any] = {}
        for name, transform in self.transforms.items():
            state = dict(transform.state())
            if _own(self.schema[name]) is not None:
                state["kind"] = "own"
            if "values" in state:
                file = f"vocabulary_{len(states)}.parquet"
                pq.write_table(pa.table({"value": state.pop("values")}), folder / file)
                state["file"] = file
            states[name] = state
        write_json(
            folder / "features.json", {"schema": self.schema.to_dict(), "transforms": states}
        )

    @classmethod
    def load(cls, folder: Path) -> FittedFeatures:
        """Loads what `save` wrote."""
        saved = read_json(folder / "features.json")
        schema = Schema.from_dict(saved["schema"])
        transforms = {
            name: _load(state, folder, schema[name]) for name, state in saved["transforms"].items()
        }
        tables = ItemTable.load(folder), UserTable.load(folder)
        return cls(schema, transforms, *tables, load_unseen(folder))


def _own(feature: Feature) -> OwnTransform | None:
    transform = feature.transform
    return transform if isinstance(transform, OwnTransform) else None


def _load(state: dict[str, Any], folder: Path, feature: Feature) -> Transform:
    if "file" in state:
        with open_parquet(folder / state.pop("file")) as file:
            state["values"] = file.read()["value"].combine_chunks()
    return fitter(feature).load(state)


def raw_column(table: pa.Table, name: str, dtype: RawType, listed: bool = False) -> pa.Array:
    """One column as a single array of a raw type."""
    return _cast(name, _single(table[name]), arrow_type(dtype, listed))


def feature_column(table: pa.Table, feature: Feature) -> pa.Array:
    """The column of a feature as a single array of its raw type."""
    return raw_column(table, feature.column_name, feature.dtype, is_listed(feature))


def _encoded_column(table: pa.Table, feature: Feature) -> pa.Array:
    """One column for transforms; strings may stay dictionary-encoded."""
    column = _single(table[feature.column_name])
    listed = is_listed(feature) and pa.types.is_list(column.type)
    values = column.type.value_type if listed else column.type
    if pa.types.is_dictionary(values) and values.value_type == arrow_type(feature.dtype):
        return column
    return _cast(feature.column_name, column, arrow_type(feature.dtype, is_listed(feature)))


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    are_alike = is_list(kind) == is_list(column.type)
    if are_alike and (of_values(column.type), of_values(kind)) == (_INTEGERS, _FLOATS):
        return _rounded(column)
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        raise PipelineError(
            f"Column {name!r}: expected values of type {kind}. Received: {column.type}, which "
            f"does not convert ({error})."
        ) from None


def _rounded(column: pa.Array) -> pa.Array:
    """Integers, or lists of them, as float32: rounded as by `ingest` and the graph."""
    if is_list(column.type):
        return with_values(pa.chunked_array([column]), _rounded, _FLOATS).chunk(0)
    return with_nulls(column).cast(pa.float64(), safe=False).cast(_FLOATS, safe=False)
