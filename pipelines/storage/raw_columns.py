"""The columns of raw rows and requests: several features may read one."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Ordered
from dataclasses import replace
from typing import Any

from recsys_attn.id_transforms import DEFAULT
from recsys_attn.schema import Categorical, Feature, RawType, Schema, Sequence, is_age, is_listed


def raw_columns(schema: Schema) -> Schema:
    """Returns the columns of raw rows as a schema: one feature for each, of the column's name.

    A column is int64 where a feature reads it as that; the others read its integers as float32.

    Raises:
        ValueError: The features of one column differ in side, type or history.
    """
    if all(feature.column_name == feature.name for feature in schema.features):
        return schema
    readers: dict[str, list[Feature]] = {}
    for feature in schema.features:
        readers.setdefault(feature.column_name, []).append(feature)
    columns = {name: _column(name, of) for name, of in readers.items()}
    features = [
        _with_owner(column, schema, columns) if isinstance(column, Sequence) else column
        for column in columns.values()
    ]
    return Schema(tuple(features), schema.tasks)


def _column(name: str, readers: Ordered[Feature]) -> Feature:
    """A column, as the feature that says most of it."""
    _check_agree(name, readers)
    dtypes = [feature.dtype for feature in readers]
    dtype: RawType = "int64" if "int64" in dtypes else dtypes[0]
    best = max(readers, key=lambda f: (isinstance(f, Sequence), not is_age(f), f.dtype == dtype))
    if isinstance(best, Sequence) and best.dtype != dtype:
        best = replace(best, dtype=dtype, transform=DEFAULT)
    return replace(best, name=name)


def _check_agree(name: str, readers: Ordered[Feature]) -> None:
    """Checks that the features of one column can have the same raw values."""
    dtypes = [feature.dtype for feature in readers]
    if "string" in dtypes:
        _check_one(name, readers, "`dtype`, or int64 and float32", dtypes)
    _check_one(name, readers, "`side`", [feature.side for feature in readers])
    nesting = ["a list" if is_listed(feature) else "one value" for feature in readers]
    _check_one(name, readers, "kind of rows, one value or a list", nesting)
    histories = [feature.history for feature in readers if isinstance(feature, Sequence)]
    _check_one(name, readers, "`history`", histories)


def _check_one(column: str, readers: Ordered[Feature], what: str, values: Collection[Any]) -> None:
    if len(set(values)) > 1:
        names = [feature.name for feature in readers]
        raise ValueError(
            f"The features {names} read the column {column!r}, so they must have one {what}. "
            f"Received: {list(values)}"
        )


def _with_owner(column: Sequence, schema: Schema, columns: dict[str, Feature]) -> Sequence:
    """The column of a sequence, with the column of the items that it shares a table with."""
    if column.shares is None:
        return column
    owner = schema[column.shares]
    items = columns[owner.column_name]
    if isinstance(items, Categorical) and items.dtype == column.dtype:
        plain = replace(column, transform=DEFAULT, width=None, table_width=None, size=None)
        return replace(plain, shares=items.name)
    transform = owner.transform if isinstance(owner, Categorical) else column.transform
    return replace(column, shares=None, transform=transform)
