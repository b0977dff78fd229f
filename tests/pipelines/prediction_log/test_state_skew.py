"""Values that a store gave against a replay: what `ingest` gives is equal, and faults are said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.common.errors import PipelineError
from pipelines.prediction_log import replay
from pipelines.prediction_log.log_folder import LoggedCall
from pipelines.prediction_log.state_skew import measure_state_skew
from serving.encoding.codec import encode
from serving.state.columns.missing import MISSING_INT
from serving.state.definitions.definition import StateDefinition
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from tests.serving.state.logs import arrivals, ingested
from tests.serving.state.online import test_static_columns as with_tables

PAST, ROWS = 41, 113  # rows that `ingest` has read, and all
USERS = ["0", "3", None, "new"]
ITEMS = [*range(7), None, 99]
MISSING: dict[str, Any] = {"O": b"", "i": MISSING_INT, "f": np.nan}


@dataclass(frozen=True)
class World:
    """A state, the folder of the events after it, and a log of the values of two moments."""

    saved: SavedState
    events: Path
    calls: list[LoggedCall]

    def measure(self, calls: Sequence[LoggedCall] | None = None, **changes: Any) -> dict[str, Any]:
        options = {"saved": self.saved, "events": self.events, "users": 99, **changes}
        return measure_state_skew(self.calls if calls is None else calls, **options)


def given(folder: Path, log: pa.Table, moment: int) -> list[dict[str, Any]]:
    """The values that `ingest` gives rows of that time, of every user with every item."""
    asked = [(user, item) for user in USERS for item in ITEMS]
    columns = {
        "user": [user for user, _ in asked],
        "item": [item for _, item in asked],
        "time": [moment] * len(asked),
    }
    empty = {name: pa.nulls(len(asked), log.schema.field(name).type) for name in EMPTY}
    probes = pa.table({**columns, **empty}).select(log.column_names).cast(log.schema)
    made, _ = ingested(folder, pa.concat_tables([log, probes]))
    return list(made.slice(log.num_rows).to_pylist())


EMPTY = ("price", "click", "name", "id")  # of rows that only ask


def call(
    of: StateDefinition, user: str | None, moment: int, rows: Sequence[Mapping[str, Any]]
) -> LoggedCall:
    """The log of one request whose values are those of some rows, one for each item."""
    log = prediction_log_pb2.PredictionLog()
    kinds = {"liked": "i8", "named": "O", "paid": "f4", "ages": "f4"}

    def array(name: str, values: list[Any]) -> np.ndarray:
        if name not in kinds:
            return np.array([np.nan if v is None else v for v in values], np.float32)
        width = max(1, *map(len, values))
        dtype = np.dtype(kinds[name])
        padded = np.full((len(values), width), MISSING[dtype.kind], dtype)
        for row, value in enumerate(values):
            padded[row, : len(value)] = [MISSING[dtype.kind] if v is None else v for v in value]
        return padded

    inputs = {"item": np.array([[MISSING_INT if item is None else item for item in ITEMS]])}
    if user is not None:
        inputs["user"] = np.array([user.encode()], object)
    for feature in of.features:
        values = array(feature.name, [row[feature.name] for row in rows])
        inputs[feature.name] = values[None] if "item" in feature.keys else values[:1]
    for name, values in inputs.items():
        encode(values, log.predict_log.request.inputs[name], content=True)
    state = {
        "fingerprint": of.fingerprint.hex(),
        "names": [feature.name for feature in of.features],
        "as_of": str(moment),
        "lag_seconds": 3.0,
        "is_degraded": False,
    }
    time = datetime.fromtimestamp(moment, UTC)
    content = log.SerializeToString()
    return LoggedCall(
        time, f"{user} {moment}", "shop", 1, "Rank", "rank", content, json.dumps(state)
    )


def calls_of(
    of: StateDefinition, folder: Path, log: pa.Table, moments: Sequence[int]
) -> Iterator[LoggedCall]:
    for moment in moments:
        values = given(folder / str(moment), log, moment)
        for number, user in enumerate(USERS):
            rows = values[number * len(ITEMS) : (number + 1) * len(ITEMS)]
            yield call(of, user, moment, rows)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    log = arrivals(ROWS)
    _, saved = ingested(folder / "past", log.slice(0, PAST), time_unit="s")
    (folder / "events").mkdir()
    middle = PAST + 50
    pq.write_table(log.slice(PAST, 50), folder / "events" / "0.parquet")
    (folder / "events" / "1.jsonl").write_text(
        "no event\n" + "".join(json.dumps(row) + "\n" for row in log.slice(middle).to_pylist())
    )
    assert saved.newest is not None
    moments = [int(saved.newest) + 3, int(np.max(log["time"].to_numpy())) + 2]
    return World(saved, folder / "events", [*calls_of(saved.definition, folder, log, moments)])


@pytest.mark.parametrize("at_once", [7, 65_536])
def test_values_of_ingest_are_equal_to_the_replay(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(replay, "_AT_ONCE", at_once)  # rows that wait in memory
    result = world.measure()
    assert result["requests"] == 2 * len(USERS)
    assert result["users"] == len(USERS) + 1  # nobody is a user of each request
    for name, column in result["columns"].items():
        assert column["equal"] == column["rows"], (name, column)
        assert column["rows"] in (8, 8 * len(ITEMS))
    assert set(result["columns"]) == {f.name for f in world.saved.definition.features}
    assert result["unequal"] == 0
    assert result["notes"] == []
    assert result["replayed"] == arrivals(ROWS).num_rows - PAST


def test_store_that_lost_events_is_found(world: World, tmp_path: Path) -> None:
    log = arrivals(ROWS)
    lost = log.slice(0, log.num_rows - 29)
    calls = [*calls_of(world.saved.definition, tmp_path, lost, [99])]
    result = world.measure(calls)
    for name in ("liked", "ages"):
        assert result["columns"][name]["deletes"] > 0
    assert result["columns"]["ages"]["largest"] > 0
    assert result["unequal"] > 0
    (note,) = (note for note in result["notes"] if "lack events" in note)
    assert "(it was up to 3 s behind its log)" in note
    # The other way round: the folder lacks them.
    few = tmp_path / "few"
    few.mkdir()
    pq.write_table(lost.slice(PAST), few / "rows.parquet")
    late = [*calls_of(world.saved.definition, tmp_path / "all", log, [99])]
    assert "have events that the replay has not" in str(world.measure(late, events=few)["notes"])
    assert world.measure(calls, events=few)["unequal"] == 0


def test_wrong_clock_is_found(world: World) -> None:
    calls = [one._replace(time=datetime.fromtimestamp(3600, UTC)) for one in world.calls]
    (note,) = world.measure(calls)["notes"]
    assert note.startswith("8 requests were answered as of a time more than 5 minutes away")
    assert "at 1970-01-01 01:00:00 (UTC)" in note


def test_other_definitions_and_lost_stores_are_left_out(world: World) -> None:
    def changed(one: LoggedCall, **state: Any) -> LoggedCall:
        return one._replace(state=json.dumps({**json.loads(one.state), **state}))

    first, second, third, fourth, *others = world.calls
    calls = [
        changed(first, fingerprint="aa" * 8),
        changed(second, is_degraded=True),
        third._replace(state=""),
        fourth._replace(version=2),
        changed(others[0], as_of="0"),
    ]
    result = world.measure(calls, versions=frozenset([1]))
    assert result["left_out"] == {
        "their state has another definition": 1,
        "the store did not answer in time": 1,
        "no value came from a store": 1,
        "they are of a version of another run": 1,
        "they are of a time before the last row of `ingest`": 1,
    }
    other, nothing = result["notes"]
    assert "1 calls used a state of another definition (aaaaaaaaaaaaaaaa)" in other
    assert nothing.startswith("No value can be compared")
    assert world.measure([*calls, *others], versions=frozenset([1]))["unequal"] == 0


def test_sample_is_of_whole_users_in_any_order(world: World) -> None:
    sample = world.measure(users=2)
    assert (sample["users"], sample["unequal"]) == (2, 0)
    again = world.measure(world.calls[::-1], users=2)
    assert again["requests"] == sample["requests"]
    assert [*again["columns"]] == [*sample["columns"]]


def test_folder_of_events_must_exist(world: World, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="--state: expected the folder of events"):
        world.measure(events=tmp_path / "nowhere")


def test_keys_of_the_item_table_are_compared(tmp_path: Path) -> None:
    """A request has the item's id; the run's table has the shop, and the log the country."""
    rows = with_tables.log()
    _, saved = with_tables.ingested(tmp_path / "past", rows.slice(0, with_tables.PAST))
    definition, items = saved.definition, [0, 1, 5, 8]
    store = LmdbStore(tmp_path / "store")
    load_state(saved, store)
    StateWriter(store, definition).push(rows.slice(with_tables.PAST).to_pylist())
    values = StateReader(store, definition).values({"user": "1"}, {"item": items}, 99)
    log = prediction_log_pb2.PredictionLog()
    names = [name for name in with_tables.NAMES if name != "shops"]
    inputs = {
        "user": np.array([b"1"], object),
        "country": np.array([values.context["country"].encode()], object),
        "item": np.array([items]),
        "spent": np.array([values.context["spent"]]),
        **{name: values.candidates[name][None] for name in names if name != "spent"},
    }
    for name, value in inputs.items():
        encode(value, log.predict_log.request.inputs[name], content=True)
    state = {"fingerprint": definition.fingerprint.hex(), "names": names, "as_of": "99"}
    state |= {"lag_seconds": None, "is_degraded": False}
    content = log.SerializeToString()
    time = datetime.fromtimestamp(99, UTC)
    one = LoggedCall(time, "r", "shop", 1, "Rank", "rank", content, json.dumps(state))
    (tmp_path / "events").mkdir()
    pq.write_table(rows.slice(with_tables.PAST), tmp_path / "events/1.parquet")
    result = measure_state_skew([one], saved, tmp_path / "events", 9)
    compared = {name: (of["equal"], of["rows"]) for name, of in result["columns"].items()}
    assert compared == {"shop_ctr": (4, 4), "pair": (4, 4), "of_country": (4, 4), "spent": (1, 1)}
