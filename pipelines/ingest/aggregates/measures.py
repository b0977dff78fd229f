"""Measures of aggregates: the columns of a table as integers, whose sums are exact.

Sums of integers depend neither on the order of the events nor on how they are put together, so the
batch job, a cluster and an online store agree to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.common.missing import is_missing, with_nulls
from pipelines.ingest.aggregates.aggregate_options import AggregateOptions
from pipelines.ingest.table_checks import cast_label, check_finite, is_one

FRACTION_BITS = 32
_LARGEST = 2.0**40  # so that a million such numbers still fit
_MASK = (1 << FRACTION_BITS) - 1
# The integers of an event, by kind. All but `value` are added up.
PARTS: dict[str, tuple[str, ...]] = {
    "count": ("events",),
    "rate": ("events", "positives"),
    "sum": ("events", "whole", "fraction"),
    "mean": ("events", "whole", "fraction"),
    "since_last": ("events",),
    "distinct": ("value",),
}


class Codes:
    """Numbers the distinct rows of some columns in the order of their appearance."""

    def __init__(self, columns: Iterable[pa.Field]) -> None:
        self._columns = tuple(columns)
        self._numbers: dict[tuple[object, ...], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, table: pa.Table) -> np.ndarray:
        """The number of each row, -1 where a column is missing."""
        encoded = [
            with_nulls(table[c.name]).combine_chunks().dictionary_encode() for c in self._columns
        ]
        place = np.zeros(table.num_rows, np.int64)  # among the pairs of this table
        present = np.ones(table.num_rows, bool)
        for count, column in enumerate(encoded):
            present &= column.is_valid().to_numpy(zero_copy_only=False)
            if count > 1:  # the places of three columns may be more than an int64 holds
                place = np.unique(place, return_inverse=True)[1]
            place = place * max(len(column.dictionary), 1) + column.indices.fill_null(0).to_numpy()
        _, first, inverse = np.unique(place[present], return_index=True, return_inverse=True)
        rows = pa.array(np.flatnonzero(present)[first])
        values = [_plain(column.dictionary.take(column.indices.take(rows))) for column in encoded]
        numbers = self._numbers
        of_rows = [numbers.setdefault(row, len(numbers)) for row in zip(*values, strict=True)]
        codes = np.full(table.num_rows, -1)
        codes[present] = np.array(of_rows, np.int64)[inverse]
        return codes

    def find(self, row: pa.Table) -> int | None:
        """The number of one row: -1 if it has not appeared, None if a column is missing."""
        values = [_plain(with_nulls(row[column.name]).combine_chunks()) for column in self._columns]
        key = tuple(value for (value,) in values)
        return None if None in key else self._numbers.get(key, -1)

    def rows(self, codes: np.ndarray) -> pa.Table:
        """The rows of some numbers."""
        keys = list(self._numbers)
        index = pa.array(codes)
        columns = [
            _as(pa.array([key[place] for key in keys], _plain_type(column.type)), column.type).take(
                index
            )
            for place, column in enumerate(self._columns)
        ]
        return pa.table(columns, [column.name for column in self._columns])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of integers of a time's width, as Python has no nanoseconds; else the type."""
    return pa.int64() if pa.types.is_temporal(kind) and kind.bit_width == 64 else kind


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.view(kind)


def _plain(values: pa.Array) -> list[object]:
    """Values to compare: times as integers."""
    return list(_as(values, _plain_type(values.type)).to_pylist())


def measure(
    table: pa.Table,
    aggregate: AggregateOptions,
    values: Codes | None,
    where: str,
    first_row: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are events, and the integers of each row.

    Args:
        table: Rows with the columns of the aggregate.
        aggregate: The definition.
        values: Numbers the values of a `"distinct"`.
        where: Name of the file, for errors.
        first_row: Number of the table's first row in its file, for errors.

    Returns:
        `(rows,)` bool and `(rows, parts)` int64, columns as in `PARTS`.

    Raises:
        PipelineError: A label is neither 0, 1 nor null, or a number is too large to add up.
    """
    is_event = np.ones(table.num_rows, bool)
    parts = np.ones((table.num_rows, len(PARTS[aggregate.kind])), np.int64)
    if aggregate.where is not None:
        is_event &= is_one(table[aggregate.where])
    if aggregate.of is None:
        return is_event, parts
    column = table[aggregate.of]
    is_event &= ~is_missing(column)
    if values is not None:
        parts[:, 0] = values.encode(table)
    elif aggregate.kind == "rate":
        parts[:, 1] = is_one(cast_label(column, aggregate.of, where, first_row))
    else:
        numbers = column.cast(pa.float64(), safe=False)
        check_finite(numbers, aggregate.of, where, first_row)
        known = np.where(is_event, pc.fill_null(numbers, 0.0).to_numpy(), 0.0)
        parts[:, 1:] = _fixed_point(known, aggregate, where)
    return is_event, parts


def _fixed_point(numbers: np.ndarray, aggregate: AggregateOptions, where: str) -> np.ndarray:
    """Whole parts, and fractions in units of 2^-32."""
    if np.abs(numbers).max(initial=0) >= _LARGEST:
        raise PipelineError(
            f"{where}: column {aggregate.of!r} (data.aggregates {aggregate.name!r}: of): expected "
            f"numbers below 2^40 (1e12), received {np.abs(numbers).max():g}; store it in a larger "
            "unit."
        )
    whole = np.floor(numbers)
    fraction = np.rint((numbers - whole) * 2.0**FRACTION_BITS)
    return np.stack([whole, fraction], axis=1).astype(np.int64)


def finish(aggregate: AggregateOptions, totals: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The value of a count, rate, sum or mean from sums of parts; NaN where nothing is known.

    Args:
        aggregate: The definition.
        totals: `(rows, parts)`, sums over the events before each row.
        prior: `(rows, 2)`, for a rate: events and positives of all keys.
    """
    events = totals[:, 0].astype(np.float64)
    if aggregate.kind == "count":
        return events
    with np.errstate(invalid="ignore", divide="ignore"):
        if aggregate.kind == "rate":
            return _rate(aggregate, events, totals[:, 1], prior)
        whole = totals[:, 1] + (totals[:, 2] >> FRACTION_BITS)
        total = whole.astype(np.float64) + (totals[:, 2] & _MASK) * 2.0**-FRACTION_BITS
        return total if aggregate.kind == "sum" else total / events


def _rate(
    aggregate: AggregateOptions, events: np.ndarray, positives: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    strength = aggregate.prior_strength
    if strength == 0:
        return positives / events
    share = prior[:, 1] / prior[:, 0] if aggregate.prior_rate is None else aggregate.prior_rate
    return (positives + strength * share) / (events + strength)
