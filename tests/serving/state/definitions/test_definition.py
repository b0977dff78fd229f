"""What a definition tells a store."""

from __future__ import annotations

import pyarrow as pa
import pytest

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition, TimeUnit
from serving.state.definitions.durations import Duration

WEEK = 7 * 86_400


@pytest.mark.parametrize(
    ("kind", "late", "unit", "seconds"),
    [
        (pa.timestamp("ms"), "2h", None, WEEK + 7200),
        (pa.date32(), "3d", None, WEEK + 3 * 86_400),
        (pa.int64(), 1500.0, "ms", WEEK + 2),
        (pa.float64(), 0.5, "s", WEEK + 1),
        (pa.int64(), 1500.0, None, None),  # of which unit?
        (pa.timestamp("ms"), None, None, None),
    ],
)
def test_ids_expire_after_late_and_a_week(
    kind: pa.DataType, late: Duration | None, unit: TimeUnit | None, seconds: int | None
) -> None:
    count = AggregateOptions(name="count", kind="count", by="user", time="time")
    columns = pa.schema({"user": pa.string(), "time": kind})
    assert StateDefinition((count,), (), columns, late, None, unit).expire_ids == seconds
