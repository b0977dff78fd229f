"""Arrow types of columns: those that a feature accepts, and the type that each is read in."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from recsys_attn.schema import RawType

_BOOLS = (pa.bool_(),)
_INTEGERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_DECIMALS = (pa.decimal32(9), pa.decimal64(18), pa.decimal128(38), pa.decimal256(76))
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
_NUMBERS = (*_BOOLS, *_INTEGERS, *_FLOATS, *_DECIMALS)

# By the `dtype` of a feature, a sample of each type of a value, whose other parameters (precision,
# size) are free. Dictionaries of them are accepted too, and a column without values, which is null.
#
# string   bytes must be UTF-8; uint64, which hashes are, is read as decimal digits
# int64    false is 0 and true is 1; floats and decimals must be whole, all within int64
# float32  all must be finite
ACCEPTED: Mapping[RawType, tuple[pa.DataType, ...]] = {
    "string": (*_TEXTS, *_BYTES, pa.uint64(), pa.null()),
    "int64": (*_NUMBERS, pa.null()),
    "float32": (*_NUMBERS, pa.null()),
}
# A sample of each type of a list. `null` is a column without lists.
LISTS: tuple[pa.DataType, ...] = (
    pa.list_(pa.null()),
    pa.large_list(pa.null()),
    pa.list_(pa.null(), 1),
    pa.list_view(pa.null()),
    pa.large_list_view(pa.null()),
)
_LIST_IDS = frozenset(kind.id for kind in LISTS)


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
    return kind.id in {plain(each).id for each in ACCEPTED[dtype]}


def is_list(kind: pa.DataType) -> bool:
    """Whether each row has a list of values, in any of Arrow's layouts."""
    return kind.id in _LIST_IDS


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that a column is read in: one for all types that hold the same values.

    Large, viewed and dictionary-encoded texts are `string`, bytes `binary`, lists `list`, half
    floats `float`, and short decimals `decimal128`. Other types remain.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if is_list(kind):
        return pa.list_(plain(kind.value_type))
    for same, chosen in ((_TEXTS, pa.string()), (_BYTES, pa.binary())):
        if kind.id in {each.id for each in same}:
            return chosen
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind
