"""Histories equal a slow loop and hold only earlier events."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.histories import HistoryColumns, check_histories
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import CHUNK_ROWS
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import DataError


def add_histories(table, histories, where):
    check_histories(table, histories, where)
    return pa.concat_tables(HistoryColumns(table, histories, LogState()).chunks(0, table.num_rows))


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
    (made,) = HistoryColumns(table, [SEEN], LogState(), "request").chunks(0, 5)
    assert made["seen"].to_pylist() == [[], [2], [2], [2], [2, 5, 3, 7]]


AGES = HistoryOptions(name="ages", of="time", by="user", time="time", max_length=5, ages=True)


@pytest.mark.parametrize("seed", range(3))
def test_ages_are_those_of_the_events_of_the_same_history(seed):
    table = _table(seed=seed)
    made = add_histories(table, [SEEN, AGES], "here")
    times = _slow(table.to_pylist(), AGES)
    now = table["time"].to_pylist()
    assert made["ages"].type == pa.list_(pa.float64())
    assert made["ages"].to_pylist() == [
        [row - time for time in past] for row, past in zip(now, times, strict=True)
    ]
    assert [*map(len, made["ages"].to_pylist())] == [*map(len, made["seen"].to_pylist())]


@pytest.mark.parametrize(
    ("kind", "second"),
    [(pa.int64(), 1), (pa.timestamp("ms"), 1000), (pa.float64(), 1), (pa.date32(), 1 / 86_400)],
    ids=str,
)
def test_ages_count_from_the_earliest_time_of_a_request(kind, second):
    times = pa.array([1000, 5000, 4000, 9000], pa.int32())
    times = times.cast(pa.int64() if kind != pa.date32() else pa.int32()).cast(kind)
    table = pa.table({"request": ["a", "b", "b", "c"], "user": [1, 1, 1, 1], "time": times})
    (made,) = HistoryColumns(table, [AGES], LogState(), "request").chunks(0, 4)
    expected = [[], [3000], [3000], [8000, 5000, 4000]]
    for ages, elapsed in zip(made["ages"].to_pylist(), expected, strict=True):
        np.testing.assert_allclose(np.array(ages) * second, elapsed)


def test_ages_of_years_keep_seconds_and_their_fractions():
    times = np.array([0, 1, 1.25, 3 * 365 * 86_400])
    table = pa.table({"user": [1] * 4, "time": times})
    (made,) = HistoryColumns(table, [AGES], LogState()).chunks(0, 4)
    assert made["ages"].to_pylist()[-1] == (times[-1] - times[:-1]).tolist()


def test_ages_need_times():
    with pytest.raises(ValueError, match="`of` must name the same column"):
        HistoryOptions(name="ages", of="item", by="user", time="time", ages=True)
    table = pa.table({"user": [1], "time": ["monday"]})
    with pytest.raises(
        DataError, match=r"'time' \(data.histories 'ages': time\): .* Received: 'monday'"
    ):
        add_histories(table, [AGES], "here")


def test_chunks_are_the_same_rows():
    rows = CHUNK_ROWS + 101
    table = _table(rows, users=997, times=10**6)
    chunks = list(HistoryColumns(table, [SEEN], LogState()).chunks(0, rows))
    assert [chunk.num_rows for chunk in chunks] == [CHUNK_ROWS, 101]
    middle = next(HistoryColumns(table, [SEEN], LogState()).chunks(13, 29))
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
        ({"time": "user"}, r"'user' \(data.histories 'seen': time\): .* must have no nulls"),
    ],
)
def test_one_clear_error(change, message):
    with pytest.raises(DataError, match=message):
        add_histories(_table(), [SEEN.model_copy(update=change)], "here")
