"""An online store gives the batch job's values, to the bit, from its state and from nothing."""

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.engines import LOCAL
from pipelines.ingest.aggregates import add_aggregates
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.aggregates.aggregate_options import AggregateOptions
from pipelines.ingest.aggregates.aggregate_state import AggregateState
from pipelines.ingest.aggregates.online import Aggregates
from tests.pipelines.ingest.aggregates.events import definitions, source, table

NAMES = [aggregate.name for aggregate in definitions()]


def _batch(folder: Path, rows: pa.Table) -> tuple[list[dict], AggregateState]:
    folder.mkdir()
    found, state = with_aggregates(source(rows, request=None), definitions(), LOCAL, folder)
    ((file,),) = found.parts.values()
    return pa.concat_tables(file.read(None)).to_pylist(), state


def _replayed(store: Aggregates, rows: list[dict], expected: list[dict]) -> None:
    """Each row is asked for before the rows of its time are known, then they arrive."""
    for time in sorted({row["time"] for row in rows}):
        now = [index for index, row in enumerate(rows) if row["time"] == time]
        for index in now:
            found = store.values({key: rows[index][key] for key in ("user", "item")}, time)
            assert found == {name: expected[index][name] for name in NAMES}
        store.update(*(rows[index] for index in now))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("start", [0, 11, 20])
def test_store_continues_the_batch_to_the_bit(tmp_path, monkeypatch, start: int) -> None:
    monkeypatch.setattr("pipelines.ingest.aggregates.online._RECENT", 37)
    monkeypatch.setattr(add_aggregates, "RANGE_ROWS", 29)
    rows = table(seed=start)
    expected, whole = _batch(tmp_path / "whole", rows)
    times = rows["time"].to_numpy()
    _, state = (
        _batch(tmp_path / "past", rows.filter(times < start))
        if start
        else (
            [],
            AggregateState.empty(definitions(), rows.schema),
        )
    )
    state.save(tmp_path / "state")
    store = Aggregates.load(tmp_path / "state")
    later = np.flatnonzero(times >= start)
    _replayed(store, rows.take(later).to_pylist(), [expected[index] for index in later])
    final = Aggregates(whole)
    for row in rows.slice(0, 29).to_pylist():  # at the newest time, whose rows do not count yet
        for time in (30, 33):
            assert store.values(row, time) == final.values(row, time)


def test_neither_order_nor_division_of_the_events_matters(tmp_path) -> None:
    """All but which of the events of one time are the last ones."""
    aggregates = [each for each in definitions() if each.last is None]
    rows = table(seed=7).to_pylist()
    mixed = np.random.default_rng(0).permutation(len(rows)).tolist()
    stores = []
    for order in (range(len(rows)), mixed, mixed[:83], mixed[83:]):
        stores.append(Aggregates(AggregateState.empty(aggregates, table().schema)))
        for index in order:
            stores[-1].update(rows[index])
    whole, other_order, first_part, second_part = stores
    second_part.save(tmp_path / "part")
    first_part.merge(tmp_path / "part")
    for row in rows[:53]:
        expected = whole.values(row, 30)
        assert other_order.values(row, 30) == expected
        assert first_part.values(row, 30) == expected


def test_states_of_other_definitions_are_not_merged(tmp_path) -> None:
    first, second = (AggregateState.empty([each], table().schema) for each in definitions()[:2])
    second.save(tmp_path / "other")
    with pytest.raises(PipelineError, match="other definitions of aggregates"):
        first.merge(tmp_path / "other")


def test_windows_and_ages_of_timestamps_are_in_seconds() -> None:
    start = dt.datetime(2024, 2, 28, 23, 59, 59)
    for kind, window, expected in (
        (pa.timestamp("us"), "90s", 60.5),
        (pa.timestamp("ns", "UTC"), "2m", 60.5),
        (pa.date32(), "2d", 86_400.0),
    ):
        shared = {"by": "user", "time": "at"}
        aggregates = [
            AggregateOptions(name="count", kind="count", window=window, **shared),
            AggregateOptions(name="age", kind="since_last", **shared),
        ]
        columns = pa.schema({"user": pa.int64(), "at": kind})
        store = Aggregates(AggregateState.empty(aggregates, columns))
        zone = {"tzinfo": dt.UTC} if getattr(kind, "tz", None) else {}
        first, later = start.replace(**zone), (start + dt.timedelta(seconds=60.5)).replace(**zone)
        assert store.values({"user": 3}, first) == {"count": 0.0, "age": None}
        store.update({"user": 3, "at": first})
        assert store.values({"user": 3}, first) == {"count": 0.0, "age": None}
        assert store.values({"user": 3}, later) == {"count": 1.0, "age": expected}
        much_later = later + dt.timedelta(days=2)
        assert store.values({"user": 3}, much_later)["count"] == 0.0


CLICKS = AggregateOptions(name="ctr", kind="rate", of="click", by="item_id", time="shown_at")
EVENT = {"item_id": 7, "shown_at": 60, "click": 1}


def clicks(**kinds: pa.DataType) -> Aggregates:
    """The click rate of an item, over a log with columns of these types."""
    columns = {"item_id": pa.int64(), "shown_at": pa.int64(), "click": pa.int8(), **kinds}
    return Aggregates(AggregateState.empty([CLICKS], pa.schema(columns)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"click": 2}, r"'click': expected a label of 0, 1 or null"),
        ({"click": "no"}, r"'click' \(data.aggregates 'ctr': of\): expected int8.*Received: 'no'"),
        ({"item_id": "7"}, r"'item_id' \(data.aggregates 'ctr': by\): expected int64.*'7'"),
        ({"item_id": [7]}, r"'item_id' .*Received: \[7\]"),
        ({"shown_at": None}, r"'shown_at' \(data.aggregates 'ctr': time\): expected a time.*None"),
        ({"shown_at": float("nan")}, r"'shown_at' .*expected a time.*nan"),
        ({"shown_at": 2**70}, r"'shown_at' .*expected a time"),
        ({"shown_at": "2025-11-05"}, r"'shown_at' .*whose type is int64"),
    ],
    ids=str,
)
def test_invalid_value_names_its_column(changed: dict, message: str) -> None:
    store = clicks()
    with pytest.raises(PipelineError, match=message):
        store.update(EVENT, {**EVENT, **changed})
    assert store.values({"item_id": 7}, 99) == {"ctr": None}, "nothing of a refused update is kept"


@pytest.mark.parametrize(
    ("absent", "near"), [("item_id", "item"), ("shown_at", "shown"), ("click", "clicks")]
)
def test_absent_column_is_an_error_with_the_nearest_name(absent: str, near: str) -> None:
    event = {**EVENT, near: EVENT[absent]}
    del event[absent]
    message = rf"row 1: the column '{absent}' .* is missing. Did you mean '{near}'\?"
    with pytest.raises(PipelineError, match=message):
        clicks().update(EVENT, event)
    if absent == "item_id":
        with pytest.raises(PipelineError, match=message.replace("row 1", "row 0")):
            clicks().values(event, 99)
        assert clicks().values({absent: None}, 99) == {"ctr": None}, "null names nobody"


MOMENT = dt.datetime(2025, 11, 5, 0, 0, 0, 500_000)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (pa.timestamp("ns"), [MOMENT, "2025-11-05T00:00:00.5", np.datetime64(MOMENT)]),
        (pa.timestamp("us", "UTC"), [MOMENT, "2025-11-05T01:00:00.5+01:00"]),
        (pa.timestamp("s"), [MOMENT, "2025-11-05 00:00", np.datetime64("2025-11-05")]),
        (pa.date32(), [MOMENT, dt.date(2025, 11, 5), "2025-11-05"]),
        (pa.date64(), [MOMENT, "2025-11-05T00:00:00.5Z"]),
        (pa.string(), [MOMENT, "2025-11-05T00:00:00.5Z"]),
        (pa.int32(), [7, 7.5, np.int64(7), np.float32(7.5)]),
        (pa.float64(), [7, 7.0, np.int32(7)]),
    ],
    ids=str,
)
def test_times_are_written_alike_for_values_and_update(kind: pa.DataType, times: list) -> None:
    for time in times:
        store = clicks(shown_at=kind)
        store.update({**EVENT, "shown_at": time})
        for again in times:
            assert store.values({"item_id": 7}, again) == {"ctr": None}, "not strictly earlier"
        later = 9 if times[0] == 7 else dt.datetime(2025, 11, 6)
        assert store.values({"item_id": 7}, later) == {"ctr": 1.0}


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.float64()], ids=str)
@pytest.mark.parametrize("yes", [True, 1, 1.0, np.int8(1), np.bool_(True)], ids=repr)
def test_labels_are_numbers_or_booleans_in_every_log(kind: pa.DataType, yes: object) -> None:
    store = clicks(click=kind)
    store.update({**EVENT, "click": yes}, {**EVENT, "click": None})
    store.update({**EVENT, "click": type(yes)(0)}, {**EVENT, "click": False})
    found = store.values({"item_id": 7}, 99)["ctr"]
    np.testing.assert_allclose(found, 1 / 3, rtol=1e-6)  # the prior is the item's rate
