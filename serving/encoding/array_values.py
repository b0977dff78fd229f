"""Arrays of raw values in the dtype of their feature, by the rule of `raw_values`.

Values of another dtype are taken if the feature's dtype holds them: false is 0 and true is 1, a
whole float is an integer, NaN is missing, and a uint64 hash is a string of its digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from serving.encoding.raw_values import exact_limit, missing_value, takes_raw_values

_NUMBERS = "biuf"  # kinds of dtypes


class Misfit(Exception):
    """The reason why values do not fit; its caller adds the feature's name."""


def fitted(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Converts values to the dtype of their feature; values of that dtype are not copied.

    Args:
        values: Values of any dtype; strings as bytes, or in the same process as str.
        dtype: One of strings, integers or floats.

    Raises:
        Misfit: The values are of another kind, or the dtype does not hold one of them.
    """
    if dtype.kind == "O":
        return _strings(values)
    is_half = values.dtype == np.float16 and dtype.kind == "i"  # no ids, as bfloat16
    if values.dtype.kind not in _NUMBERS or values.dtype.isbuiltin != 1 or is_half:
        raise Misfit(f"expected dtype {dtype.name}. Received: {_name(values)}")
    return _integers(values, dtype) if dtype.kind == "i" else _floats(values, dtype)


def is_present(values: np.ndarray) -> np.ndarray:
    """Returns a mask of the values that are not missing, in the shape of the values."""
    if values.dtype.kind != "f" and not takes_raw_values(values.dtype):
        return np.ones(values.shape, bool)
    present: np.ndarray = (
        ~np.isnan(values) if values.dtype.kind == "f" else values != missing_value(values.dtype)
    )
    return present


def _strings(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint64:
        flat = np.empty(values.size, object)
        flat[:] = [str(value).encode() for value in values.ravel().tolist()]
        return flat.reshape(values.shape)
    if values.dtype.kind != "O":
        raise Misfit(f"expected dtype string. Received: {_name(values)}")
    flat_values = values.ravel().tolist()
    if flat_values and isinstance(flat_values[0], str):
        return values
    try:
        # No character holds a line break, so the whole is UTF-8 if each value is.
        b"\n".join(flat_values).decode()
    except UnicodeDecodeError:
        raise Misfit(
            f"expected a string in UTF-8. Received: {_first_not_utf8(flat_values)!r:.80}"
        ) from None
    return values


def _first_not_utf8(values: list[bytes]) -> bytes:
    for value in values:
        try:
            value.decode()
        except UnicodeDecodeError:
            return value
    return b""


def _integers(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if values.dtype == dtype:
        return values
    limits, missing = np.iinfo(dtype), np.zeros(values.shape, bool)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        whole = (values == np.trunc(values)) & (np.abs(values) <= exact_limit(values.dtype))
        if not (whole | missing).all():
            raise Misfit(f"expected an integer. Received: {values[~(whole | missing)][0]}")
        values = np.where(missing, 0, values)
    if values.size:
        for end in (values.min().item(), values.max().item()):
            if not limits.min <= end <= limits.max:
                raise Misfit(
                    f"expected an integer from {limits.min} to {limits.max}. Received: {end}"
                )
    numbers = values.astype(dtype)
    numbers[missing] = missing_value(dtype)
    return numbers


def _floats(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    wide = values if values.dtype.kind == "f" else values.astype(np.float64)
    is_narrow = wide.dtype.itemsize <= dtype.itemsize
    too_large = np.isinf(wide) if is_narrow else np.abs(wide) > np.finfo(dtype).max
    if too_large.any():
        raise Misfit(
            f"expected a finite {dtype.name} number, or null for a missing value. "
            f"Received: {values[too_large][0]}"
        )
    return wide.astype(dtype, copy=False)


def _name(values: np.ndarray) -> str:
    return "string" if values.dtype.kind == "O" else values.dtype.name
