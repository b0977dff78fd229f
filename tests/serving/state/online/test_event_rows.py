"""Events as rows of the log."""

import pyarrow as pa
import pytest

from serving.state.errors import DataError
from serving.state.online.event_rows import rows_of

TIMES = [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("ms"), pa.string()]


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_no_events_are_a_table_without_rows(kind: pa.DataType) -> None:
    columns = pa.schema({"at": kind, "click": pa.int8()})
    assert rows_of([], columns, ["at"]).equals(columns.empty_table())


@pytest.mark.parametrize(
    ("kind", "sent", "expected"),
    [
        (pa.timestamp("ms"), 1_795_921_782, "ISO 8601 text such as '2025-11-01T12:00:00'"),
        (pa.int64(), "2025-11-01", r"a number, as the log holds times \(int64\)"),
    ],
    ids=str,
)
def test_a_wrong_time_is_told_how_to_write_it(
    kind: pa.DataType, sent: object, expected: str
) -> None:
    with pytest.raises(DataError, match=f"column 'at': expected {expected}.* Received: .*{sent}"):
        rows_of([{"at": sent}], pa.schema({"at": kind}), ["at"])


def test_wrong_value_is_named_by_its_event() -> None:
    columns = pa.schema({"at": pa.int64(), "user": pa.string()})
    events = [{"at": 3, "user": "u1"}, {"at": 5, "user": 7}]
    with pytest.raises(DataError, match=r"event 1: column 'user': expected string.* Received: 7"):
        rows_of(events, columns, ["at"])
    with pytest.raises(DataError, match="user 1: column 'at': expected a number"):
        rows_of([events[0], {"at": "now", "user": "u2"}], columns, ["at"], "user")
