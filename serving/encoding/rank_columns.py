"""Conversion of the columns of a RankRequest to arrays of a signature.

A request may declare lists of any length, so lengths are checked against the values before memory
is allocated for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from serving.common.errors import InvalidArgument
from serving.encoding.array_values import Misfit, fitted
from serving.encoding.features import TensorSpec
from serving.encoding.raw_values import missing_value, shortened
from serving.protos import scoring_pb2

# Lists are padded to the longest. A larger array needs all its values.
MAX_PADDED_ELEMENTS = 2**22
# Kinds of values by the kind of the input's dtype.
_TAKES = {"O": ("strings", "binaries"), "i": ("ints",), "f": ("floats", "ints")}


class InputSpec(NamedTuple):
    """An input of a signature that takes raw values.

    Args:
        name: Name of the feature.
        dtype: Dtype of its array.
        listed: Whether it takes lists instead of single values.
        width: Length of the lists; None for any length.
    """

    name: str
    dtype: np.dtype[Any]
    is_list: bool
    width: int | None

    @classmethod
    def of(cls, name: str, spec: TensorSpec, leading_axes: int) -> InputSpec:
        """Describes an input whose first `leading_axes` are requests and candidates.

        Raises:
            InvalidArgument: The input takes neither single values nor lists.
        """
        return cls(name, *spec.raw_form(name, leading_axes))

    @property
    def missing(self) -> Any:
        """The value that means missing."""
        return missing_value(self.dtype)

    def missing_rows(self, rows: int) -> np.ndarray:
        """Returns the array of an absent feature, (rows,) or (rows, width)."""
        shape = (rows, self.width or 1) if self.is_list else (rows,)
        return np.full(shape, self.missing, self.dtype)

    def array(self, column: scoring_pb2.Column, side: str, *, one_row: bool) -> np.ndarray:
        """Converts a column to an array, (rows,) or (rows, longest list).

        Args:
            column: A column, as it was received.
            where: Name of its side, for errors.
            one_row: Whether all values belong to one row, as in a context.

        Raises:
            InvalidArgument: The values are of another kind, or do not match the lengths.
        """
        try:
            values = self._values(column)
            return (
                self._lists(column, values, one_row)
                if self.is_list
                else self._single(column, values)
            )
        except Misfit as misfit:
            raise InvalidArgument(f"Feature {self.name!r} of {side}: {misfit}") from None

    def lengths(self, column: scoring_pb2.Column, *, one_row: bool) -> np.ndarray:
        """Returns the length of the list in each row of a column that `array` has converted."""
        return self._lengths(column, len(_entries(column)), one_row)

    def _values(self, column: scoring_pb2.Column) -> np.ndarray:
        kind, entries = column.WhichOneof("values"), _entries(column)
        missing = np.array(column.missing, np.int64)
        if ((missing < 0) | (missing >= len(entries))).any():
            raise Misfit(
                f"`missing` must be places in the {len(entries)} values that were sent. "
                f"Received: {missing.min()} to {missing.max()}"
            )
        are_whole = self.dtype.kind == "i" and kind == "floats"  # or rejected below
        if kind not in _TAKES[self.dtype.kind] and not are_whole:
            if len(np.unique(missing)) < len(entries):
                first = next(value for i, value in enumerate(entries) if i not in set(missing))
                raise Misfit(
                    f"expected {' or '.join(_TAKES[self.dtype.kind])}. Received: {kind}, such as "
                    f"{shortened(first)}"
                )
            return np.full(len(entries), self.missing, self.dtype)
        values = self._converted(kind, entries, missing)
        values[missing] = self.missing
        return values

    def _converted(self, kind: str, entries: Any, missing: np.ndarray) -> np.ndarray:
        if self.dtype.kind == "O":
            texts = [text.encode() for text in entries] if kind == "strings" else list(entries)
            return np.array(texts, object)
        numbers = np.array(entries, np.int64 if kind == "ints" else np.float32)
        numbers[missing] = 0  # anything may stand there
        if self.dtype.kind == "i" and kind == "floats":
            try:
                return fitted(numbers, self.dtype)
            except Misfit as misfit:
                raise Misfit(f"expected ints. Received: floats, {misfit}") from None
        wide = numbers.astype(np.float64) if self.dtype.kind == "f" and kind == "ints" else numbers
        with np.errstate(over="ignore"):
            values = wide.astype(self.dtype)
        fits = (
            values == numbers if self.dtype.kind == "i" else np.isinf(values) == np.isinf(numbers)
        )
        if not fits.all():
            raise Misfit(f"{numbers[~fits][0]} is outside {self.dtype.name}")
        return values

    def _single(self, column: scoring_pb2.Column, values: np.ndarray) -> np.ndarray:
        if column.lengths:
            raise Misfit("it takes one value for each row. Received: lists (`lengths`)")
        return values

    def _lists(self, column: scoring_pb2.Column, values: np.ndarray, one_row: bool) -> np.ndarray:
        lengths = self._lengths(column, len(values), one_row)
        values = values[: lengths.sum()]  # null for a list is one missing value
        longest = int(lengths.max(initial=0))
        if self.width is not None and longest > self.width:
            raise Misfit(f"a list has at most {self.width} values. Received: {longest}")
        shape = (len(lengths), max(longest, 1) if self.width is None else self.width)
        if shape[0] * shape[1] > max(MAX_PADDED_ELEMENTS, len(values)):
            raise Misfit(
                f"{shape[0]} lists of up to {shape[1]} values are too many to be padded to one "
                f"length ({MAX_PADDED_ELEMENTS} in all). Send fewer candidates at once"
            )
        array = np.full(shape, self.missing, self.dtype)
        array[np.arange(shape[1]) < lengths[:, None]] = values
        return array

    def _lengths(self, column: scoring_pb2.Column, count: int, one_row: bool) -> np.ndarray:
        if not (one_row or column.lengths) and len(set(column.missing)) == count:
            return np.zeros(count, np.int64)
        lengths = np.array(column.lengths, np.int64)
        if (lengths < 0).any():
            raise Misfit(f"`lengths` must not be negative. Received: {lengths.min()}")
        if not len(lengths):
            if one_row:
                return np.array([count])
            if self.width and count % self.width == 0:
                return np.full(count // self.width, self.width)
            raise Misfit(
                "it takes a list for each candidate; in gRPC all values, and the `lengths` of the "
                "lists. Received: single values"
            )
        if lengths.sum() != count:
            raise Misfit(f"`lengths` add up to {lengths.sum()}, and {count} values were sent")
        return lengths


def _entries(column: scoring_pb2.Column) -> Any:
    kind = column.WhichOneof("values")
    return getattr(column, kind).values if kind else ()
