"""Histories equal a slow loop and hold only earlier events."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import HistoryOptions
from pipelines.ingest.histories import Histories, check_histories
from pipelines.ingest.source import CHUNK_ROWS


def add_histories(table, histories, where):
    check_histories(table, histories, where)
    return pa.concat_tables(Histories(table, histories).chunks(0, table.num_rows))


LIKED = HistoryOptions(name="liked", of="item", by="user", time="time", where="like", max_length=3)
SEEN = HistoryOptions(name="seen", of="item", by="user", time="time", max_length=5)
RATED = HistoryOptions(name="rated", of="stars", by="user", time="time", max_length=5)


def _table(rows=211, seed=0, users=7, times=23):
    rng = np.random.default_rng(seed)
    user = rng.integers(users, size=rows)
    return pa.table(
        {
            "user": pa.array(user, mask=rng.random(rows) < 0.1),
            "item": pa.array(rng.integers(100, size=rows), mask=rng.random(rows) < 0.1),
            "stars": rng.integers(1, 6, size=rows),
            "time": rng.integers(times, size=rows),
            "like": pa.array(rng.integers(2, size=rows), mask=rng.random(rows) < 0.1),
        }
    )


def _slow(rows, options):
    """What the definition says, row by row."""
    result = []
    for row in rows:
        events = [
            (past["time"], index, past[options.of])
            for index, past in enumerate(rows)
            if row["user"] is not None
            and past["user"] == row["user"]
            and past["time"] < row["time"]
            and (options.where is None or past[options.where] == 1)
        ]
        result.append(
            [value for *_, value in sorted(events, key=lambda e: e[:2])][-options.max_length :]
        )
    return result


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_definition(seed):
    table = _table(seed=seed)
    made = add_histories(table, [LIKED, SEEN, RATED], "here")
    for options in (LIKED, SEEN, RATED):
        assert made[options.name].to_pylist() == _slow(table.to_pylist(), options)
    assert made.select(table.column_names).equals(table)


def test_request_sees_events_before_its_earliest_time():
    table = pa.table(
        {
            "request": ["a", "b", "b", "b", "c"],
            "user": [1, 1, 1, 1, 1],
            "item": [2, 3, 5, 7, 11],
            "time": [1, 4, 3, 5, 9],
        }
    )
    (made,) = Histories(table, [SEEN], "request").chunks(0, 5)
    assert made["seen"].to_pylist() == [[], [2], [2], [2], [2, 5, 3, 7]]


def test_chunks_are_the_same_rows():
    rows = CHUNK_ROWS + 101
    table = _table(rows, users=997, times=10**6)
    chunks = list(Histories(table, [SEEN]).chunks(0, rows))
    assert [chunk.num_rows for chunk in chunks] == [CHUNK_ROWS, 101]
    middle = next(Histories(table, [SEEN]).chunks(13, 29))
    assert middle["seen"].equals(pa.concat_tables(chunks)["seen"].slice(13, 16))


def test_timestamps_and_fractions_order_events():
    for kind in (pa.timestamp("ms"), pa.float32(), pa.date32()):
        times = (
            pa.array([2, 1, 3], pa.int32())
            .cast(pa.int64() if kind != pa.date32() else pa.int32())
            .cast(kind)
        )
        table = pa.table({"user": [1, 1, 1], "item": [5, 6, 7], "time": times})
        assert add_histories(table, [SEEN], "here")["seen"].to_pylist() == [[6], [], [6, 5]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": "itm"}, "'itm' .* of.* is missing. Did you mean 'item'"),
        ({"where": "liked"}, "Did you mean 'like'"),
        ({"name": "item"}, "would replace a column of that name"),
        ({"time": "user"}, "'user' orders the history 'seen' and must have no nul"),
    ],
)
def test_one_clear_error(change, message):
    with pytest.raises(PipelineError, match=message):
        add_histories(_table(), [SEEN.model_copy(update=change)], "here")
