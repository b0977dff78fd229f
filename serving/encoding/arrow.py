"""Conversion of Arrow columns to arrays of a signature, without a Python object for each number.

The arrays equal those of the same values in dicts: null is missing, lists are padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serving.common.errors import InvalidFeature
from serving.encoding.array_values import Misfit, fitted
from serving.encoding.arrow_tables import Table
from serving.encoding.raw_values import convert, padded

_STRINGS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def column(table: Table, name: str) -> pa.Array:
    """Returns the column of a feature as one array; nulls if there is no such column."""
    indices = table.schema.get_all_field_indices(name)
    if not indices:
        return pa.nulls(table.num_rows)
    if len(indices) > 1:
        raise InvalidFeature(f"Feature {name!r} must be one column. Received: {len(indices)}")
    values = table.column(indices[0])
    if isinstance(values, pa.ChunkedArray):
        return values.unify_dictionaries().combine_chunks()
    return values


def entries(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    """Converts a column of single values to an array (len(values),)."""
    if pa.types.is_null(values.type):
        return np.full(len(values), missing, dtype)
    if isinstance(values.type, pa.BaseExtensionType):
        return entries(name, values.storage, dtype, missing)
    if pa.types.is_run_end_encoded(values.type):
        return entries(name, pc.run_end_decode(values), dtype, missing)
    if pa.types.is_dictionary(values.type) and _is_any(values.type.value_type, _STRINGS):
        dictionary = entries(name, values.dictionary, dtype, missing)
        # Null points behind the last entry, to the missing value.
        places = values.indices.cast(pa.int64()).fill_null(len(dictionary)).to_numpy()
        return np.concatenate([dictionary, np.full(1, missing, dtype)])[places]
    if pa.types.is_dictionary(values.type):
        return entries(name, values.dictionary_decode(), dtype, missing)
    try:
        return _converted(name, values, dtype, missing)
    except Misfit as misfit:
        raise InvalidFeature(f"Feature {name!r}: {misfit}") from None


def lists(
    name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any, width: int | None
) -> np.ndarray:
    """Converts lists to an array (len(values), width), padded on the right.

    Without a `width` the array is as wide as the longest list.

    Raises:
        InvalidFeature: The column holds no lists, or values of another type.
    """
    if pa.types.is_null(values.type):
        flat = np.full(0, missing, dtype)
    elif _is_any(values.type, _LISTS):
        flat = entries(name, pc.list_flatten(values), dtype, missing)
    else:
        kind = {"O": "string"}.get(dtype.kind, dtype.name)
        raise _wrong(name, f"a list of {kind} values", values)
    return padded(name, flat, list_lengths(values), width, missing)


def list_lengths(values: pa.Array) -> np.ndarray:
    """Returns the length of each list (len(values),); 0 for null."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    lengths: np.ndarray = pc.list_value_length(values).fill_null(0).to_numpy()
    return lengths


def _is_any(kind: pa.DataType, tests: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _converted(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    kind, expected = values.type, _EXPECTED[dtype.kind]
    if dtype.kind == "O" and _is_any(kind, _STRINGS):
        return values.cast(pa.large_binary()).fill_null(missing).to_numpy(zero_copy_only=False)
    accepted = (_is_hash,) if dtype.kind == "O" else _NUMBERS
    if not _is_any(kind, accepted):
        raise _wrong(name, expected, values)
    if pa.types.is_decimal(kind):
        return np.array(convert(name, values.to_pylist(), dtype), dtype)
    if not values.null_count:
        return fitted(values.to_numpy(zero_copy_only=False), dtype)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    filler = pa.scalar(0, pa.int8()).cast(values.type)
    array = fitted(values.fill_null(filler).to_numpy(zero_copy_only=False), dtype)
    array = array if array.flags.writeable else array.copy()
    array[nulls] = missing
    return array


def _is_hash(kind: pa.DataType) -> bool:
    return bool(pa.types.is_uint64(kind))


_EXPECTED = {"O": "a string", "i": "an integer", "f": "a number"}
_NUMBERS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
)


def _wrong(name: str, expected: str, values: pa.Array) -> InvalidFeature:
    return InvalidFeature(
        f"Feature {name!r}: expected {expected}. Received: a column of Arrow type {values.type}"
    )
