"""Raw Python values as arrays for a signature, with one clear sentence where they do not fit.

A value that is absent or None becomes the missing value of its type: "" for strings, NaN for
floats, the smallest number for integers. Lists are padded with it on the right.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.codec import dtype_name, numpy_dtype
from serving.errors import InvalidFeature

Row = Mapping[str, Any]


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of an input or output; None is an open axis, and an unknown rank."""

    dtype: str
    shape: tuple[int | None, ...] | None
    numpy_dtype: np.dtype[Any] | None

    @classmethod
    def from_proto(cls, info: meta_graph_pb2.TensorInfo) -> TensorSpec:
        shape = None
        if not info.tensor_shape.unknown_rank:
            shape = tuple(None if d.size < 0 else d.size for d in info.tensor_shape.dim)
        return cls(dtype_name(info.dtype), shape, numpy_dtype(info.dtype))

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype} (of any shape)"
        return f"{self.dtype} ({', '.join('?' if d is None else str(d) for d in self.shape)})"


def encode_rows(rows: Sequence[Row], specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    """One array (B, ...) for each input from B rows of raw values."""
    for i, row in enumerate(rows):
        check_names(row, specs, f"row {i}")
    return {
        name: _column(name, [row.get(name) for row in rows], spec, leading_axes=1)
        for name, spec in specs.items()
    }


def encode_candidates(
    context: Row,
    candidates: Sequence[Row],
    rank_specs: Mapping[str, TensorSpec],
    row_specs: Mapping[str, TensorSpec],
) -> dict[str, np.ndarray]:
    """Arrays (1, ...) of the context and (1, N, ...) of N candidates.

    A candidate's feature has one axis more in `rank_specs` than in `row_specs`.
    """
    sides: dict[bool, dict[str, TensorSpec]] = {False: {}, True: {}}
    for name, spec in rank_specs.items():
        sides[_rank(name, spec) > _rank(name, row_specs.get(name, spec))][name] = spec
    _check_side(context, sides[False], sides[True], "the context", "the candidates")
    for i, candidate in enumerate(candidates):
        _check_side(candidate, sides[True], sides[False], f"candidate {i}", "the context")
    arrays = {
        name: _column(name, [context.get(name)], spec, leading_axes=1)
        for name, spec in sides[False].items()
    }
    for name, spec in sides[True].items():
        values = [candidate.get(name) for candidate in candidates]
        arrays[name] = _column(name, values, spec, leading_axes=2)[np.newaxis]
    return arrays


def check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raises at the first unknown name, and suggests the nearest known one."""
    known = sorted(known)
    for name in names:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Features: {', '.join(known)}."
            raise InvalidFeature(f"Unknown feature {shortened(name)} in {where}. {hint}")


def _check_side(
    row: Row, own: Mapping[str, Any], other: Mapping[str, Any], where: str, elsewhere: str
) -> None:
    for name in row:
        if name in other:
            raise InvalidFeature(f"Feature {name!r} belongs to {elsewhere}. Received in {where}.")
    check_names(row, own, where)


def _rank(name: str, spec: TensorSpec) -> int:
    if spec.shape is None:
        raise InvalidFeature(
            f"Feature {name!r} has a shape that the signature leaves open. "
            "Send arrays with `Client.predict`."
        )
    return len(spec.shape)


def _column(name: str, values: Sequence[Any], spec: TensorSpec, *, leading_axes: int) -> np.ndarray:
    """The values of one feature: (len(values),), or (len(values), S) where a value is a list."""
    axes = _rank(name, spec) - leading_axes
    if axes not in (0, 1) or spec.numpy_dtype is None or spec.shape is None:
        raise InvalidFeature(
            f"Feature {name!r} of type {spec} takes no single values and no lists. "
            "Send arrays with `Client.predict`."
        )
    convert, missing = _converter(name, spec)
    if axes == 0:
        items = [missing if value is None else convert(value) for value in values]
        return np.array(items, spec.numpy_dtype)
    lists = [_as_list(name, value, spec) for value in values]
    longest, fixed = max(map(len, lists), default=0), spec.shape[-1]
    if fixed is not None and longest > fixed:
        raise InvalidFeature(f"Feature {name!r} takes at most {fixed} values. Received: {longest}")
    array = np.full((len(lists), max(longest, 1) if fixed is None else fixed), missing)
    array = array.astype(spec.numpy_dtype)
    for i, entries in enumerate(lists):
        array[i, : len(entries)] = [missing if e is None else convert(e) for e in entries]
    return array


def _as_list(name: str, value: Any, spec: TensorSpec) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tolist()
    if not isinstance(value, (list, tuple)):
        raise _wrong(name, f"a list of {spec.dtype} values", value)
    return value


def _converter(name: str, spec: TensorSpec) -> tuple[Callable[[Any], Any], Any]:
    """How one raw value becomes an entry, and the entry that stands for a missing one."""
    dtype = spec.numpy_dtype
    if dtype is None or dtype.kind not in _CONVERTERS:
        raise InvalidFeature(
            f"Feature {name!r} of type {spec} takes no raw values. Send arrays with "
            "`Client.predict`."
        )
    convert = _CONVERTERS[dtype.kind]
    if dtype.kind == "O":
        return lambda value: convert(name, value, dtype), b""
    missing = np.nan if dtype.kind == "f" else np.iinfo(dtype).min
    return lambda value: convert(name, value, dtype), missing


def _string(name: str, value: Any, dtype: np.dtype[Any]) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidFeature(f"Feature {name!r}: not valid Unicode: {shortened(value)}") from error


def _integer(name: str, value: Any, dtype: np.dtype[Any]) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _wrong(name, "an integer", value)
    number, limits = int(value), np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise InvalidFeature(
            f"Feature {name!r}: expected an integer from {limits.min} to {limits.max}. "
            f"Received: {shortened(number)}"
        )
    return number


def _number(name: str, value: Any, dtype: np.dtype[Any]) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number:
        raise _wrong(name, "a number", value)
    # What is too large for the feature's type would arrive as infinite; NaN passes.
    if abs(value) > float(np.finfo(dtype).max):
        raise InvalidFeature(
            f"Feature {name!r}: expected a finite {dtype.name} number, or null where it is "
            f"missing. Received: {shortened(value, str)}"
        )
    return float(value)


_CONVERTERS: dict[str, Callable[[str, Any, np.dtype[Any]], Any]] = {
    "O": _string,
    "i": _integer,
    "f": _number,
}


def _wrong(name: str, expected: str, value: Any) -> InvalidFeature:
    return InvalidFeature(
        f"Feature {name!r}: expected {expected}. "
        f"Received: {shortened(value)} ({type(value).__name__})"
    )


def shortened(value: object, show: Callable[[Any], str] = repr) -> str:
    """At most 80 characters of an echoed value."""
    try:
        text = show(value)
    except RecursionError:
        return "a value that is nested too deeply"
    return text if len(text) <= 80 else f"{text[:77]}..."
