"""The order in which train rows come last: that of the split, else that of time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.row_order import RowOrder
from pipelines.ingest.source import Source

COLUMNS = ("user", "shown", "time", "session", "item")
HISTORY = {"name": "seen", "of": "item", "by": "user", "time": "shown", "where": "click"}
RATE = {"name": "rate", "kind": "rate", "of": "click", "by": "item", "time": "shown"}


@pytest.mark.parametrize(
    ("split", "more", "source", "expected"),
    [
        ({"by": "time", "column": "shown"}, {}, {"time": "time"}, RowOrder("time", "shown")),
        ({"by": "time"}, {}, {"time": "time"}, RowOrder("time", "time")),
        ({"by": "user", "column": "user"}, {}, {}, RowOrder("hash", "user")),
        ({"by": "user"}, {}, {"user": "user", "time": "time"}, RowOrder("hash", "user")),
        ({"by": "hash", "column": "session"}, {}, {}, RowOrder("hash", "session")),
        ({"by": "hash"}, {"histories": [HISTORY]}, {}, RowOrder("time", "shown")),
        ({"by": "hash"}, {"aggregates": [RATE]}, {}, RowOrder("time", "shown")),
        ({"by": "column", "column": "split"}, {}, {"time": "time"}, RowOrder("time", "time")),
        ({"by": "provided"}, {}, {}, RowOrder()),
        ({"by": "provided"}, {}, {"time": "not written"}, RowOrder()),
    ],
)
def test_order_is_that_of_the_split_else_of_time(
    tmp_path: Any, split: Any, more: Any, source: Any, expected: RowOrder
) -> None:
    options = DataOptions(source="parquet", path=str(tmp_path), split=split, **more)
    assert RowOrder.of(options, Source(**source), COLUMNS) == expected


def test_rows_without_a_time_come_first() -> None:
    table = pa.table({"time": pa.array([7, None, 3]), "user": ["a", None, "a"]})
    assert RowOrder("time", "time").places(table, 5).tolist() == [7, float("-inf"), 3]
    one, none, same = RowOrder("hash", "user").places(table, 5)
    assert none < 0 <= one == same < 1
    assert RowOrder().places(table, 5).tolist() == [5, 6, 7]
