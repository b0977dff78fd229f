"""The table of the guide, row by row: `ingest` and a store give the values that it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.ingest import ingest
from serving.state.definitions.definition import StateDefinition
from serving.state.online.clock import Clock
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.stores.lmdb_store import LmdbStore

TYPES = {"user": "string", "item": "int64", "at": "int64", "click": "int64", "id": "string"}
COLUMNS = pa.schema(TYPES)
CLICKS = {"name": "x", "kind": "count", "by": "user", "time": "at", "where": "click"}
COUNT = {"name": "x", "kind": "count", "by": "user", "time": "at"}
ITEMS = {"name": "x", "of": "item", "by": "user", "time": "at"}
DIFFERENT = {**COUNT, "kind": "distinct", "of": "item"}
RATE = {**COUNT, "kind": "rate", "of": "click"}
FORGETS = {**COUNT, "forget_after": 10.0}
STEPS = {**COUNT, "window": 10.0, "resolution": 5.0}


def event(at: int, item: int = 1, click: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"user": "a", "item": item, "at": at, "click": click, "id": None, **more}


def offline(folder: Path, log: list[dict[str, Any]], feature: dict[str, Any], **ask: Any) -> Any:
    """The value of a row of the log that asks."""
    row = {**dict.fromkeys(COLUMNS.names), "user": "a", **ask}
    table = pa.Table.from_pylist([*log, row, row], COLUMNS)
    table = table.append_column("part", pa.array(["train"] * len(log) + ["valid", "test"]))
    pq.write_table(table, folder / "log.parquet")
    split = {"by": "column", "column": "part"}
    data = DataOptions(source="parquet", path=str(folder / "log.parquet"), split=split,
                       **options(feature))  # fmt: skip
    ingest(data, None, 0, folder / "data")
    return pq.read_table(folder / "data" / "test")["x"][-1].as_py()


def options(feature: dict[str, Any]) -> dict[str, Any]:
    kind = "aggregates" if "kind" in feature else "histories"
    return {kind: [feature], "late": 20.0, "event_id": "id", "time_unit": "s"}


def store_of(folder: Path, feature: dict[str, Any]) -> tuple[LmdbStore, StateDefinition]:
    data = DataOptions(source="parquet", path="log", **options(feature))
    of = StateDefinition(data.aggregates, data.histories, pa.schema([]), data.late, "id", "s")
    return LmdbStore(folder / "store"), of.of_columns(COLUMNS)


def online(folder: Path, log: list[dict[str, Any]], feature: dict[str, Any], **ask: Any) -> Any:
    """The value of a request, after the events were pushed one by one."""
    store, of = store_of(folder, feature)
    for one in log:
        StateWriter(store, of).push([one])
    context = {"user": ask.get("user", "a")}
    value = StateReader(store, of).values(context, {}, ask["at"]).context["x"]
    store.close()
    return value if isinstance(value, list) else None if np.isnan(value) else float(value)


@pytest.mark.parametrize(
    ("feature", "log", "ask", "expected"),
    [
        # Strictly earlier events.
        (COUNT, [event(1), event(4), event(5)], {"at": 5}, 2),
        (ITEMS, [event(4, 7), event(1, 8), event(5, 9)], {"at": 5}, [8, 7]),
        # A window ends at the moment of the row or the request, not at the newest event.
        ({**COUNT, "window": 10.0}, [event(1), event(5)], {"at": 11}, 2),
        ({**COUNT, "window": 10.0}, [event(1), event(5)], {"at": 12}, 1),
        ({**COUNT, "window": 10.0}, [event(1), event(5)], {"at": 99}, 0),
        # `delay`
        ({**COUNT, "delay": 3.0}, [event(1), event(4), event(5)], {"at": 5}, 1),
        # `resolution`: the start of the window is the one before that is a multiple of the step.
        (STEPS, [event(4), event(5), event(9)], {"at": 17}, 2),
        (STEPS, [event(4), event(5), event(9)], {"at": 19}, 2),
        (STEPS, [event(4), event(5), event(9)], {"at": 20}, 0),
        # A late event is in the step of its time.
        (STEPS, [event(16), event(6)], {"at": 18}, 2),
        # `forget_after`: a row without a label, too, keeps a key.
        (FORGETS, [event(1), event(10)], {"at": 19}, 2),
        (FORGETS, [event(1), event(11)], {"at": 19}, 1),
        (FORGETS, [event(1), event(10)], {"at": 20}, 0),
        ({**CLICKS, "forget_after": 10.0}, [event(1), event(10, click=0)], {"at": 19}, 1),
        ({**ITEMS, "forget_after": 10.0}, [event(1, 7), event(11, 8)], {"at": 19}, [8]),
        # `distinct` holds values, not events; null is none of them.
        (DIFFERENT, [event(t, t % 3) for t in range(9)] + [event(9, None)], {"at": 99}, 3),
        ({**DIFFERENT, "window": 5.0}, [event(t, t % 3) for t in range(2)], {"at": 6}, 1),
        # An event that arrives again counts once; the key and the time are part of its id.
        (COUNT, [event(1, id="e"), event(1, id="e"), event(2, id="e")], {"at": 9}, 2),
        (COUNT, [event(1), event(1)], {"at": 9}, 2),
        # A label that comes later counts at the time of its row, which counts once.
        (RATE, [event(1, click=None, id="e"), event(3, click=0, id="f"),
                event(1, click=1, id="e")], {"at": 9}, (1 + 20 * 0.5) / 22),
        (CLICKS, [event(1, click=None, id="e"), event(1, click=1, id="e")], {"at": 9}, 1),
        (COUNT, [event(1, click=None, id="e"), event(1, click=1, id="e")], {"at": 9}, 1),
        # A missing key has no past; a new one has that of a first event.
        (COUNT, [event(1), event(1, user=None), event(1, user="")], {"at": 9, "user": None}, None),
        (ITEMS, [event(1), event(1, user=""), event(1, user="")], {"at": 9, "user": ""}, []),
        (COUNT, [event(1)], {"at": 9, "user": "new"}, 0),
        (ITEMS, [event(1)], {"at": 9, "user": "new"}, []),
        (RATE, [event(1), event(2, click=0)], {"at": 9, "user": "new"}, 20 * 0.5 / 20),
        ({**COUNT, "kind": "since_last"}, [event(1)], {"at": 9, "user": "new"}, None),
    ],
)  # fmt: skip
def test_both_sides_have_the_value_of_the_guide(
    tmp_path: Path, feature: dict[str, Any], log: Any, ask: dict[str, Any], expected: Any
) -> None:
    if isinstance(expected, float):
        expected = float(np.float32(expected))
    assert offline(tmp_path, log, feature, **ask) == expected
    assert online(tmp_path, log, feature, **ask) == expected


def test_too_late_and_future_events_are_told_not_counted(tmp_path: Path) -> None:
    store, of = store_of(tmp_path, COUNT)
    writer = StateWriter(store, of, Clock(of, lambda: 100.0))
    added = writer.push([event(90), event(70), event(69), event(400), event(401)])
    assert added.late.tolist() == [False, False, True, False, False]
    assert added.ahead.tolist() == [False, False, False, False, True]
    assert StateReader(store, of).values({"user": "a"}, {}, 999).context["x"] == 3


def test_a_request_without_a_time_is_of_now(tmp_path: Path) -> None:
    store, of = store_of(tmp_path, {**COUNT, "window": 10.0})
    writer = StateWriter(store, of, Clock(of, lambda: 100.0))
    writer.push([event(t) for t in (95, 97, 99)])
    values = [
        StateReader(store, of, Clock(of, lambda now=now: now)).values({"user": "a"}, {})
        for now in (100.0, 106.0, 110.0)
    ]
    assert [one.context["x"] for one in values] == [3, 2, 0]
    assert [one.as_of for one in values] == [100, 106, 110]
    early = StateReader(store, of).values({"user": "a"}, {}, as_of=3)
    assert early.context["x"] == 2  # as of the newest event
