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
from serving.encoding.tables import Table

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
    """Returns the column of a feature in one piece; without such a column, nulls."""
    found = table.schema.get_all_field_indices(name)
    if not found:
        return pa.nulls(table.num_rows)
    if len(found) > 1:
        raise InvalidFeature(f"Feature {name!r} must be one column. Received: {len(found)}")
    values = table.column(found[0])
    if isinstance(values, pa.ChunkedArray):
        return values.unify_dictionaries().combine_chunks()
    return values


def entries(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    """Converts a column of single values to an array (len(values),)."""
    if pa.types.is_null(values.type):
        return np.full(len(values), missing, dtype)
    if pa.types.is_dictionary(values.type):
        known = entries(name, values.dictionary, dtype, missing)
        # Null points behind the last entry, to the missing value.
        places = values.indices.cast(pa.int64()).fill_null(len(known)).to_numpy()
        return np.concatenate([known, np.full(1, missing, dtype)])[places]
    return _READERS[dtype.kind](name, values, dtype, missing)


def lists(
    name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any, width: int | None
) -> np.ndarray:
    """Converts lists to an array (len(values), width), padded on the right.

    Without a `width` the array is as wide as the longest list.

    Raises:
        InvalidFeature: The column holds no lists, or values of another type.
    """
    if pa.types.is_null(values.type):
        lengths, flat = np.zeros(len(values), np.int64), np.full(0, missing, dtype)
    elif _is_any(values.type, _LISTS):
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        flat = entries(name, pc.list_flatten(values), dtype, missing)
    else:
        what = {"O": "string"}.get(dtype.kind, dtype.name)
        raise _wrong(name, f"a list of {what} values", values)
    longest = int(lengths.max(initial=0))
    if width is not None and longest > width:
        raise InvalidFeature(f"Feature {name!r} takes at most {width} values. Received: {longest}")
    array = np.full((len(values), max(longest, 1) if width is None else width), missing, dtype)
    array[np.arange(array.shape[1]) < lengths[:, np.newaxis]] = flat
    return array


def _is_any(kind: pa.DataType, tests: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _strings(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    if not _is_any(values.type, _STRINGS):
        raise _wrong(name, "a string", values)
    return values.cast(pa.large_binary()).fill_null(missing).to_numpy(zero_copy_only=False)


def _integers(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    if not pa.types.is_integer(values.type):
        raise _wrong(name, "an integer", values)
    limits = np.iinfo(dtype)
    ends = pc.min_max(values).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not limits.min <= end <= limits.max:
            raise InvalidFeature(
                f"Feature {name!r}: expected an integer from {limits.min} to {limits.max}. "
                f"Received: {end}"
            )
    values = values.cast(pa.from_numpy_dtype(dtype))
    return (values.fill_null(int(missing)) if values.null_count else values).to_numpy()


def _numbers(name: str, values: pa.Array, dtype: np.dtype[Any], missing: Any) -> np.ndarray:
    if pa.types.is_integer(values.type):
        values = values.cast(pa.float64(), safe=False)
    if not pa.types.is_floating(values.type):
        raise _wrong(name, "a number", values)
    found = (values.fill_null(missing) if values.null_count else values).to_numpy()
    too_large = np.abs(found) > np.finfo(dtype).max  # NaN is allowed: it means missing
    if too_large.any():
        raise InvalidFeature(
            f"Feature {name!r}: expected a finite {dtype.name} number, or null for a "
            f"missing value. Received: {found[too_large][0]}"
        )
    return found.astype(dtype, copy=False)


_READERS = {"O": _strings, "i": _integers, "f": _numbers}


def _wrong(name: str, expected: str, values: pa.Array) -> InvalidFeature:
    return InvalidFeature(
        f"Feature {name!r}: expected {expected}. Received: a column of Arrow type {values.type}"
    )
