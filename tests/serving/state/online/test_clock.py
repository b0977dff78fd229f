"""The time of now and of `as_of`, as the log holds times."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.online.clock import Clock

NOON = dt.datetime(2025, 11, 5, 12, tzinfo=dt.UTC)


def clock(kind: pa.DataType, unit: Any = None) -> Clock:
    """A clock that stands at noon."""
    count = AggregateOptions(name="count", kind="count", by="user", time="at")
    columns = pa.schema({"user": pa.int64(), "at": kind})
    definition = StateDefinition((count,), (), columns, time_unit=unit)
    return Clock(definition, NOON.timestamp)


@pytest.mark.parametrize(
    ("kind", "unit", "ticks"),
    [
        (pa.int64(), "s", NOON.timestamp()),
        (pa.int64(), "ms", NOON.timestamp() * 1e3),
        (pa.float64(), "s", NOON.timestamp()),
        (pa.timestamp("us"), None, NOON.timestamp() * 1e6),
        (pa.date32(), None, NOON.timestamp() - 12 * 3600),
        (pa.int64(), None, None),
    ],
    ids=str,
)
def test_now_is_in_the_unit_of_the_log(kind: pa.DataType, unit: Any, ticks: float | None) -> None:
    assert clock(kind, unit).now() == ticks


@pytest.mark.parametrize(
    ("kind", "as_of", "ticks"),
    [
        (pa.float64(), "7.5", 7.5),
        (pa.float64(), 7, 7),
        (pa.int64(), 7, 7),
        (pa.timestamp("s"), "2025-11-05T12:00:00Z", NOON.timestamp()),
    ],
    ids=str,
)
def test_moment_is_read_as_the_log_holds_times(kind: pa.DataType, as_of: Any, ticks: float) -> None:
    assert clock(kind).moment(as_of) == ticks


@pytest.mark.parametrize(
    ("kind", "as_of", "message"),
    [
        (pa.int64(), None, "numbers of an unknown unit. Set `data.time_unit`"),
        (pa.float64(), "noon", r"expected a number, as .*\(double\).*'noon'"),
        (pa.timestamp("s"), 7, "expected ISO 8601 text such as .* Received: 7"),
    ],
    ids=str,
)
def test_what_is_no_time_is_refused(kind: pa.DataType, as_of: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        clock(kind).moment(as_of)
