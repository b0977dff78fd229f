"""Kinds of Arrow types: text, bytes, numbers and lists, in all layouts and widths."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

# A sample of each type, whose other parameters (precision, size) are free.
TEXTS: tuple[pa.DataType, ...] = (pa.string(), pa.large_string(), pa.string_view())
BYTES: tuple[pa.DataType, ...] = (
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)),
)
BOOLS: tuple[pa.DataType, ...] = (pa.bool_(),)
INTEGERS: tuple[pa.DataType, ...] = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
FLOATS: tuple[pa.DataType, ...] = (pa.float32(), pa.float64())
HALVES: tuple[pa.DataType, ...] = (pa.float16(),)
DECIMALS: tuple[pa.DataType, ...] = (
    *(pa.decimal32(9), pa.decimal64(18), pa.decimal128(38), pa.decimal256(76)),
)
LISTS: tuple[pa.DataType, ...] = (
    *(pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.null(), 1)),
    *(pa.list_view(pa.null()), pa.large_list_view(pa.null())),
)


def _ids(kinds: Iterable[pa.DataType]) -> frozenset[int]:
    return frozenset(kind.id for kind in kinds)


_TEXTS, _BYTES, _LISTS = _ids(TEXTS), _ids(BYTES), _ids(LISTS)
_NUMBERS = _ids((*BOOLS, *INTEGERS, *FLOATS, *HALVES, *DECIMALS))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts."""
    return kind.id in _TEXTS


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes that may be no text."""
    return kind.id in _BYTES


def is_number(kind: pa.DataType) -> bool:
    """Whether values count as numbers: integers, floats, decimals and booleans."""
    return kind.id in _NUMBERS


def is_list(kind: pa.DataType) -> bool:
    """Whether each row has a list of values."""
    return kind.id in _LISTS


def of_values(kind: pa.DataType) -> pa.DataType:
    """The type of the values: of a list its elements', else the type itself."""
    return kind.value_type if is_list(kind) else kind
