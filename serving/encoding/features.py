"""Conversion of raw rows to arrays of a signature.

Rows are dicts, or an Arrow table or record batch. A value that is absent or None becomes the
missing value of its type: "" for strings, NaN for floats, the smallest number for integers. Lists
are padded with it on the right.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from serving.common.errors import InvalidFeature
from serving.encoding.arrow_tables import Table, is_table
from serving.encoding.codec import dtype_name, numpy_dtype
from serving.encoding.raw_values import (
    as_list,
    convert,
    missing_value,
    padded,
    shortened,
    takes_raw_values,
)

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]
Rows: TypeAlias = "Sequence[Row] | Table"


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of an input or output; None for an open axis or an unknown rank.

    Lists of one `history` have an entry for each of its events; "" belongs to none. An export
    writes it as the name of the last axis.
    """

    dtype: str
    shape: tuple[int | None, ...] | None
    numpy_dtype: np.dtype[Any] | None
    history: str = ""

    @classmethod
    def from_proto(cls, info: Any) -> TensorSpec:
        """Reads a TensorInfo, of TensorFlow or of `serving/protos`."""
        shape, axes = None, info.tensor_shape.dim
        if not info.tensor_shape.unknown_rank:
            shape = tuple(None if axis.size < 0 else axis.size for axis in axes)
        history = axes[-1].name if axes else ""
        return cls(dtype_name(info.dtype), shape, numpy_dtype(info.dtype), history)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype} (of any shape)"
        return f"{self.dtype} ({', '.join('?' if d is None else str(d) for d in self.shape)})"

    def raw_form(self, name: str, leading_axes: int) -> tuple[np.dtype[Any], bool, int | None]:
        """Returns the dtype of raw values, whether they are lists, and the length of the lists.

        Args:
            name: Name of the feature, for the error.
            leading_axes: Axes of requests and candidates.

        Raises:
            InvalidFeature: It takes neither of them.
        """
        axes = -1 if self.shape is None else len(self.shape) - leading_axes
        if axes not in (0, 1) or not takes_raw_values(self.numpy_dtype):
            raise InvalidFeature(
                f"Feature {name!r} of type {self} takes neither values nor lists of them. Send "
                "arrays with Predict: `Client.predict`."
            )
        return self.numpy_dtype, bool(axes), self.shape[-1] if axes and self.shape else None


def encode_rows(rows: Rows, specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    """Converts B rows of raw values to one array (B, ...) for each input."""
    check_rows(rows, specs, {}, "row")
    values = {name: _values(rows, name) for name in specs}
    arrays = {
        name: _column(name, values[name], spec, leading_axes=1) for name, spec in specs.items()
    }
    check_histories(specs, lambda name: _lengths(values[name]), "row {}")
    return arrays


def encode_candidates(
    context: Row | Table,
    candidates: Rows,
    rank_specs: Mapping[str, TensorSpec],
    row_specs: Mapping[str, TensorSpec],
) -> dict[str, np.ndarray]:
    """Converts a context to arrays (1, ...) and T candidates to arrays (1, T, ...).

    `is_of_candidates` says which features are those of candidates.
    """
    specs_by_side: dict[bool, dict[str, TensorSpec]] = {False: {}, True: {}}
    for name, spec in rank_specs.items():
        specs_by_side[is_of_candidates(spec, row_specs.get(name))][name] = spec
    shared = as_rows(context)
    check_rows(shared, specs_by_side[False], specs_by_side[True], "the context", "the candidates")
    check_rows(candidates, specs_by_side[True], specs_by_side[False], "candidate", "the context")
    values = {name: _values(shared, name) for name in specs_by_side[False]}
    arrays = {
        name: _column(name, values[name], spec, leading_axes=1)
        for name, spec in specs_by_side[False].items()
    }
    check_histories(specs_by_side[False], lambda name: _lengths(values[name]), "the context")
    for name, spec in specs_by_side[True].items():
        column = _column(name, _values(candidates, name), spec, leading_axes=2)
        arrays[name] = column[np.newaxis]
    return arrays


def is_of_candidates(spec: TensorSpec, of_row: TensorSpec | None) -> bool:
    """Returns whether an input of `rank` has values of each candidate.

    It has one axis more than in the signature of rows, or that signature lacks it: a next-item
    model takes candidates for `rank` only.

    Args:
        spec: The input of `rank`.
        of_row: That of the same name in the signature of rows; None for no such input.
    """
    if spec.shape is None:
        return False
    if of_row is None:
        return len(spec.shape) > 1
    return of_row.shape is not None and len(spec.shape) == len(of_row.shape) + 1


def as_rows(context: Row | Table) -> Rows:
    """Returns a context as a list of one row, or as a table of one."""
    if not is_table(context):
        return [context]
    if context.num_rows != 1:
        raise InvalidFeature(f"The context must be one row. Received: {context.num_rows}")
    return context


def check_names(names: Iterable[str], known: Iterable[str], place: str) -> None:
    """Raises an error for the first unknown name, with the nearest known one."""
    known = sorted(known)
    for name in names:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Features: {', '.join(known)}."
            raise InvalidFeature(f"Unknown feature {shortened(name)} in {place}. {hint}")


def check_rows(
    rows: Rows,
    features: Mapping[str, Any] | None,
    other_features: Mapping[str, Any],
    unit: str,
    elsewhere: str = "",
) -> None:
    """Raises an error for the first row that is no dict, or has an unknown feature.

    Args:
        rows: Rows, or one context.
        own: Features by name; None allows every name that is not in `other`.
        other: Features of the other side.
        what: Name of one row ("candidate") or of all of them ("the context"), for errors.
        elsewhere: Name of the other side, for errors.
    """
    is_whole = unit.startswith("the ")
    if is_table(rows):
        check_side(
            rows.schema.names,
            features,
            other_features,
            unit if is_whole else f"the {unit}s",
            elsewhere,
        )
        return
    for i, row in enumerate(rows):
        place = unit if is_whole else f"{unit} {i}"
        if not isinstance(row, Mapping):
            raise InvalidFeature(
                f"Expected a dict of features in {place}. "
                f"Received: {shortened(row)} ({type(row).__name__})"
            )
        check_side(row, features, other_features, place, elsewhere)


def check_side(
    names: Iterable[str],
    features: Mapping[str, Any] | None,
    other_features: Mapping[str, Any],
    place: str,
    elsewhere: str,
) -> None:
    """Raises an error for the first name of the other side, or the first unknown one."""
    for name in names:
        if name in other_features:
            raise InvalidFeature(f"Feature {name!r} belongs to {elsewhere}. Received in {place}.")
    if features is not None:
        check_names(names, features, place)


def check_histories(
    specs: Mapping[str, TensorSpec],
    lengths: Callable[[str], Sequence[int] | np.ndarray],
    place: str,
) -> None:
    """Raises an error for lists of one history whose lengths differ.

    The entries of the shorter list would belong to other events than those beside them.

    Args:
        specs: Inputs by name.
        lengths: Returns the length of an input's list in each row; 0 for a missing list.
        where: Name of a row, for errors; `{}` is its number.

    Raises:
        InvalidFeature: The message names two lists and their lengths.
    """
    first_lists: dict[str, tuple[str, np.ndarray]] = {}
    for name, spec in sorted(specs.items()):
        if not spec.history:
            continue
        events = np.asarray(lengths(name), np.int64)
        first, expected = first_lists.setdefault(spec.history, (name, events))
        for row in np.flatnonzero(events != expected)[:1]:
            raise InvalidFeature(
                f"Features {first!r} and {name!r} of {place.format(row)}: expected lists of one "
                f"length, as both are of one history. Received: {expected[row]} and {events[row]} "
                "events. Send a value for each event, null where it is missing."
            )


def _lengths(values: list[Any] | pa.Array) -> Sequence[int] | np.ndarray:
    """Returns the lengths of lists that `_column` has accepted; 0 for a missing one."""
    if isinstance(values, list):
        return [0 if value is None else len(value) for value in values]
    from serving.encoding import arrow

    return arrow.list_lengths(values)


def _values(rows: Rows, name: str) -> list[Any] | pa.Array:
    if is_table(rows):
        from serving.encoding import arrow  # loads pyarrow's functions

        return arrow.column(rows, name)
    return [row.get(name) for row in rows]


def _column(
    name: str, values: list[Any] | pa.Array, spec: TensorSpec, *, leading_axes: int
) -> np.ndarray:
    """Converts one feature to an array (len(values),), or (len(values), S) if it takes lists."""
    dtype, is_list, width = spec.raw_form(name, leading_axes)
    missing = missing_value(dtype)
    if not isinstance(values, list):
        from serving.encoding import arrow

        if is_list:
            return arrow.lists(name, values, dtype, missing, width)
        return arrow.entries(name, values, dtype, missing)
    if not is_list:
        return np.array(convert(name, values, dtype), dtype)
    lists = [as_list(name, value, spec.dtype) for value in values]
    lengths = np.array([len(entries) for entries in lists], np.int64)
    entries = np.array(convert(name, itertools.chain.from_iterable(lists), dtype), dtype)
    return padded(name, entries, lengths, width, missing)
