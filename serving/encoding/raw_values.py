"""Conversion of raw Python values to the type of their feature.

The rule, which files and every transport share, is the table of `docs/reference/value-types.md`.
"""

from __future__ import annotations

import decimal
import functools
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from serving.common.errors import InvalidFeature

_DEEPEST = 32  # a list may hold itself


def takes_raw_values(dtype: np.dtype[Any] | None) -> TypeGuard[np.dtype[Any]]:
    """Returns whether a dtype is NumPy's own of strings, integers or floats."""
    return dtype is not None and dtype.kind in _CONVERTERS and dtype.isbuiltin == 1


def missing_value(dtype: np.dtype[Any]) -> Any:
    """Returns the value that means missing."""
    if dtype.kind == "O":
        return b""
    return np.nan if dtype.kind == "f" else int(np.iinfo(dtype).min)


def convert(name: str, values: Iterable[Any], dtype: np.dtype[Any]) -> list[Any]:
    """Converts the values of a feature; None is missing."""
    one, missing = _CONVERTERS[dtype.kind], missing_value(dtype)
    return [missing if value is None else one(name, value, dtype) for value in values]


def as_list(name: str, value: Any, kind: str) -> Sequence[Any]:
    """Returns the values of a list; None is empty."""
    if value is None:
        return ()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return elements(value)
    if not isinstance(value, (list, tuple)):
        raise wrong(name, f"a list of {kind} values", value)
    return value


def padded(
    name: str, values: np.ndarray, lengths: np.ndarray, width: int | None, missing: Any
) -> np.ndarray:
    """Returns lists as an array (len(lengths), width), padded on the right.

    Args:
        name: Name of the feature, for errors.
        values: The values of all lists, one list after the other.
        lengths: The length of each list.
        width: Width of the array; None for the longest list, and at least 1.
        missing: The value that pads.

    Raises:
        InvalidFeature: A list is longer than `width`.
    """
    longest = int(lengths.max(initial=0))
    if width is not None and longest > width:
        raise InvalidFeature(f"Feature {name!r} takes at most {width} values. Received: {longest}")
    array = np.full((len(lengths), max(longest, 1) if width is None else width), missing)
    array = array.astype(values.dtype)
    array[np.arange(array.shape[1]) < lengths[:, np.newaxis]] = values
    return array


def elements(array: np.ndarray) -> list[Any]:
    """Returns the values of an array; times and hashes keep their NumPy type."""
    values: list[Any] = list(array) if array.dtype.kind in "mMu" else array.tolist()
    return values


@functools.cache
def limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest finite value as Python numbers."""
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return np.asarray(info.min).item(), np.asarray(info.max).item()


@functools.cache
def exact_limit(dtype: np.dtype[Any]) -> int:
    """Returns the largest integer to which a float dtype rounds no other integer."""
    return int(2 ** (np.finfo(dtype).nmant + 1)) - 1


def whole(value: Any) -> int | None:
    """Returns a boolean or a whole number as an integer; None for NaN.

    Raises:
        ValueError: The number has a fraction, or is a float so large that it may be rounded.
        TypeError: The value is no number, or a half float.
    """
    if isinstance(value, numbers.Integral | bool | np.bool_) and not _is_time(value):
        return int(value)
    is_number = isinstance(value, numbers.Real | decimal.Decimal)
    if not is_number or _is_time(value) or isinstance(value, np.float16):  # too coarse for ids
        raise TypeError
    if value != value:
        return None
    is_float = isinstance(value, float | np.floating)
    if is_float and abs(value) > exact_limit(np.dtype(type(value))):
        raise ValueError
    if not np.isfinite(float(value)) or value != int(value):
        raise ValueError
    return int(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, np.timedelta64)  # an integer to NumPy


def _string(name: str, value: Any, dtype: np.dtype[Any]) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.uint64):  # a hash
        return str(int(value)).encode()
    if not isinstance(value, str):
        raise wrong(name, "a string", value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidFeature(f"Feature {name!r}: not valid Unicode: {shortened(value)}") from error


def _integer(name: str, value: Any, dtype: np.dtype[Any]) -> int:
    number = value
    if type(value) is not int:
        try:
            number = whole(value)
        except (TypeError, ValueError, ArithmeticError):
            raise wrong(name, "an integer", value) from None
        if number is None:
            return int(missing_value(dtype))
    lowest, highest = limits(dtype)
    if not lowest <= number <= highest:
        raise InvalidFeature(
            f"Feature {name!r}: expected an integer from {lowest} to {highest}. "
            f"Received: {shortened(number)}"
        )
    return int(number)


def _number(name: str, value: Any, dtype: np.dtype[Any]) -> float:
    if type(value) is not float:
        if isinstance(value, decimal.Decimal):
            value = np.nan if value.is_nan() else float(value)
        if not isinstance(value, numbers.Real | np.bool_) or _is_time(value):
            raise wrong(name, "a number", value)
        if isinstance(value, np.generic):
            value = value.item()  # NumPy would compare in its own, smaller dtype
    # A number that is too large for the dtype would become infinite. NaN is allowed.
    if abs(value) > limits(dtype)[1]:
        raise InvalidFeature(
            f"Feature {name!r}: expected a finite {dtype.name} number, or null for a "
            f"missing value. Received: {shortened(value, str)}"
        )
    return float(value)


_CONVERTERS: dict[str, Callable[[str, Any, np.dtype[Any]], Any]] = {
    "O": _string,
    "i": _integer,
    "f": _number,
}


def is_ragged(values: Any) -> bool:
    """Returns whether lists of the same depth have different lengths."""
    level = [[values]]
    for _ in range(_DEEPEST):
        level = [entry for one in level for entry in one if _is_list(entry)]
        if len(set(map(len, level))) > 1:
            return True
    return False


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def wrong(name: str, expected: str, value: Any, side: str = "") -> InvalidFeature:
    """Returns the error for a value of another type, of the context or the candidates."""
    return InvalidFeature(
        f"Feature {name!r}{side and f' of {side}'}: expected {expected}. "
        f"Received: {shortened(value)} ({type(value).__name__})"
    )


def shortened(value: object, show: Callable[[Any], str] = repr) -> str:
    """Returns at most 80 characters of a value, for errors."""
    try:
        text = show(value)
    except RecursionError:
        return "a value that is nested too deeply"
    return text if len(text) <= 80 else f"{text[:77]}..."
