"""Columns of a file: their Arrow types, and the errors for missing and for repeated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from pipelines.common.errors import PipelineError, did_you_mean
from recsys_attn.schema import Feature, RawType, Schema, is_listed

_ARROW = {"string": pa.string(), "int64": pa.int64(), "float32": pa.float32()}


def arrow_type(dtype: RawType, listed: bool = False) -> pa.DataType:
    """The Arrow type of a raw value, or of a list of them."""
    return pa.list_(_ARROW[dtype]) if listed else _ARROW[dtype]


def by_name(schema: Schema | None) -> dict[str, Feature]:
    """The features by column."""
    return {feature.name: feature for feature in (schema.features if schema else ())}


def describe_type(feature: Feature) -> str:
    """The Arrow type of a feature's column, in words."""
    return f"list<{feature.dtype}>" if is_listed(feature) else feature.dtype


def shown_value(value: pa.Scalar) -> str:
    """A value for messages; Python has no nanoseconds."""
    return str(value.cast(pa.string())) if pa.types.is_temporal(value.type) else repr(value.as_py())


def require_column(names: Iterable[str], name: str, role: str, where: str) -> None:
    """Raises the error for a missing column, with the most similar name."""
    names = list(names)
    if name in names:
        return
    raise PipelineError(
        f"{where}: the column {name!r} ({role}) is missing.{did_you_mean(name, names)} "
        f"Columns: {', '.join(names)}."
    )


def check_names(names: Sequence[str], where: str) -> None:
    """Raises an error if two columns have one name."""
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise PipelineError(f"{where}: has two columns {twice!r}; rename or remove one of them.")
