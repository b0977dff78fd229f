"""Measures of features: the columns of a table as integers, whose sums are exact.

Sums of integers depend neither on the order of the events nor on how they are put together, so the
batch job, a cluster and an online store agree to the bit.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serving.state.columns.arrow_kinds import is_bytes, is_text
from serving.state.columns.labels import cast_label, check_finite, is_one
from serving.state.columns.missing import is_missing, with_nulls
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.history_options import HistoryOptions
from serving.state.definitions.rule import PARTS
from serving.state.errors import DataError
from serving.state.past.values import FRACTION_BITS

_LARGEST = 2.0**40  # so that a million such numbers still fit


def measure(
    table: pa.Table,
    feature: AggregateOptions | HistoryOptions,
    where: str,
    first_row: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are events, and the integers of each row.

    Args:
        table: Rows with the columns of the feature.
        feature: The definition.
        where: Name of the file, for errors.
        first_row: Number of the table's first row in its file, for errors.

    Returns:
        `(rows,)` bool and `(rows, parts)` int64, columns as in `PARTS`. Of a history: whether the
        value is known, and the number of the row.

    Raises:
        DataError: A label is neither 0, 1 nor null, or a number is too large to add up.
    """
    is_event = np.ones(table.num_rows, bool)
    if feature.where is not None:
        is_event &= is_one(table[feature.where])
    if isinstance(feature, HistoryOptions):
        is_known = table[feature.of].is_valid().to_numpy()
        return is_event, np.stack([is_known, np.arange(table.num_rows)], axis=1, dtype=np.int64)
    parts = np.ones((table.num_rows, len(PARTS[feature.kind])), np.int64)
    if feature.of is None:
        return is_event, parts
    column = table[feature.of]
    is_event &= ~is_missing(column)
    if feature.kind == "distinct":
        parts = identities(column)
    elif feature.kind == "rate":
        parts[:, 1] = is_one(cast_label(column, feature.of, where, first_row))
    else:
        numbers = column.cast(pa.float64(), safe=False)
        check_finite(numbers, feature.of, where, first_row)
        known = np.where(is_event, pc.fill_null(numbers, 0.0).to_numpy(), 0.0)
        parts[:, 1:] = _fixed_point(known, feature, where)
    return is_event, parts


def identities(column: pa.ChunkedArray) -> np.ndarray:
    """`(rows, 2)`: integers that are equal for equal values; of a text its 128-bit hash."""
    encoded = with_nulls(column).combine_chunks().dictionary_encode()
    values = encoded.dictionary
    of_value = np.zeros((len(values) + 1, 2), np.int64)  # the last row is that of nulls
    if is_text(values.type) or is_bytes(values.type) or pa.types.is_decimal(values.type):
        texts = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
        data = b"".join(map(_hash, texts.to_pylist()))
        of_value[:-1] = np.frombuffer(data, "<i8").reshape(-1, 2)
    elif pa.types.is_floating(values.type):
        of_value[:-1, 0] = values.cast(pa.float64()).to_numpy().view(np.int64)
    elif pa.types.is_uint64(values.type):
        of_value[:-1, 0] = values.to_numpy().view(np.int64)
    else:
        wide = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
        of_value[:-1, 0] = wide.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return of_value[encoded.indices.fill_null(len(values)).to_numpy()]


def _hash(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return hashlib.blake2b(data, digest_size=16).digest()


def _fixed_point(numbers: np.ndarray, aggregate: AggregateOptions, where: str) -> np.ndarray:
    """Whole parts, and fractions in units of 2^-32."""
    if np.abs(numbers).max(initial=0) >= _LARGEST:
        raise DataError(
            f"{where}: column {aggregate.of!r} (data.aggregates {aggregate.name!r}: of): expected "
            f"numbers below 2^40 (1e12), received {np.abs(numbers).max():g}; store it in a larger "
            "unit."
        )
    whole = np.floor(numbers)
    fraction = np.rint((numbers - whole) * 2.0**FRACTION_BITS)
    return np.stack([whole, fraction], axis=1).astype(np.int64)
