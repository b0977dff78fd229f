"""Columns of a file: their Arrow types, and the errors for missing and for repeated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.schema import Feature, RawType, Schema, is_listed
from serving.state.columns.arrow_kinds import (
    BOOLS,
    BYTES,
    DECIMALS,
    FLOATS,
    HALVES,
    INTEGERS,
    TEXTS,
    is_bytes,
    is_list,
    is_text,
)

# By the `dtype` of a feature, a sample of each type of a value, whose other parameters (precision,
# size) are free. Dictionaries of them are accepted too, and a column without values, which is null.
#
# string   bytes must be UTF-8; uint64, which hashes are, is read as decimal digits
# int64    false is 0 and true is 1; floats and decimals must be whole, all within int64
# float32  all must be finite
ACCEPTED: Mapping[RawType, tuple[pa.DataType, ...]] = {
    "string": (*TEXTS, *BYTES, pa.uint64(), pa.null()),
    "int64": (*BOOLS, *INTEGERS, *FLOATS, *DECIMALS, pa.null()),
    "float32": (*BOOLS, *INTEGERS, *FLOATS, *HALVES, *DECIMALS, pa.null()),
}
_ARROW = {"string": pa.string(), "int64": pa.int64(), "float32": pa.float32()}


def accepts(dtype: RawType, kind: pa.DataType, listed: bool = False) -> bool:
    """Whether a feature may have a column of an Arrow type.

    Args:
        dtype: The type of the feature's values.
        kind: The type of the column.
        listed: Whether each row has a list of values.
    """
    kind = plain(kind)
    if listed and is_list(kind):
        kind = kind.value_type
    elif listed:
        return pa.types.is_null(kind)
    return kind.id in {plain(accepted).id for accepted in ACCEPTED[dtype]}


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that a column is read in: one for all types that hold the same values.

    Large, viewed and dictionary-encoded texts are `string`, bytes `binary`, lists `list`, and
    short decimals `decimal128`. Other types remain.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if is_list(kind):
        return pa.list_(plain(kind.value_type))
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def arrow_type(dtype: RawType, listed: bool = False) -> pa.DataType:
    """The Arrow type of a raw value, or of a list of them."""
    return pa.list_(_ARROW[dtype]) if listed else _ARROW[dtype]


def by_name(schema: Schema | None) -> dict[str, Feature]:
    """The columns of raw rows, as features of their names."""
    return {column.name: column for column in (raw_columns(schema).features if schema else ())}


def describe_type(feature: Feature) -> str:
    """The Arrow type of a feature's column, in words."""
    return f"list<{feature.dtype}>" if is_listed(feature) else feature.dtype


def shown_value(value: pa.Scalar) -> str:
    """A value for messages; Python has no nanoseconds."""
    return str(value.cast(pa.string())) if pa.types.is_temporal(value.type) else repr(value.as_py())


def check_names(names: Sequence[str], where: str) -> None:
    """Raises an error if two columns have one name."""
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise PipelineError(f"{where}: has two columns {twice!r}; rename or remove one of them.")
