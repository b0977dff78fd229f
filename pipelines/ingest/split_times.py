"""Times that rows are divided by: of requests, and the cuts of an experiment file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import SplitOptions
from pipelines.storage.columns import require_column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def request_times(
    table: pa.Table, column: str, starts: np.ndarray, where: str, texts: bool = False
) -> np.ndarray:
    """The earliest time of each request: microseconds of a date, numbers, or strings.

    Args:
        table: Whole requests.
        column: The times.
        starts: First row of each request.
        where: Name of the file, for errors.
        texts: Whether strings, which have no shares, are times too.
    """
    require_column(table.column_names, column, "data.split.column", where)
    values = table[column]
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    elif not (_is_number(kind) or (texts and _is_text(kind))):
        advice = "split a column of strings by valid_from and test_from, or " * _is_text(kind)
        raise PipelineError(
            f"{where}: column {column!r}: a time to split by must be a number, a date or a "
            f"timestamp, received {kind}; {advice}change data.split.column."
        )
    if values.null_count or (_is_number(kind) and pc.any(pc.invert(pc.is_finite(values))).as_py()):
        raise PipelineError(
            f"{where}: column {column!r}: a time to split by must have no nulls and no NaN; fill "
            "them, or change data.split.column."
        )
    times = values.to_numpy()
    return np.minimum.reduceat(times, starts) if len(starts) else times


def cuts(options: SplitOptions, column: str, kind: pa.DataType, where: str) -> np.ndarray:
    """The first time of validation and of test, as `request_times` gives times.

    Raises:
        PipelineError: A cut is not of the column's type, or they are in the wrong order.
    """
    given = {"valid_from": options.valid_from, "test_from": options.test_from}
    found: list[Any] = []
    for key, value in given.items():
        cut = _cut(value, kind)
        if cut is None:
            raise PipelineError(
                f"`data.split.{key}`: expected {_expected(kind)}, as {column!r} of {where} holds "
                f"{kind}. Received: {value!r}."
            )
        found.append(cut)
    if not found[0] < found[1]:
        raise PipelineError(
            "`data.split.valid_from` must be before `data.split.test_from`. Received: "
            f"{options.valid_from!r} and {options.test_from!r}."
        )
    return np.array(found, object if isinstance(found[0], str) else None)


def _cut(value: int | float | str | None, kind: pa.DataType) -> int | float | str | None:
    """A cut in the unit of the column's times; None if it is of another type."""
    if not pa.types.is_temporal(kind):
        return value if isinstance(value, str) == _is_text(kind) else None
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(microseconds=1)


def _expected(kind: pa.DataType) -> str:
    if pa.types.is_temporal(kind):
        return "a date or a time, such as 2025-11-01 or 2025-11-01T12:00:00"
    return "a string" if _is_text(kind) else "a number"


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
