"""Calls with several requests, of another schema or without a store, as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow_serving.apis import prediction_log_pb2

from serving.encoding.codec import encode
from serving.observability.prediction_log.log_files import LogFiles, Row
from tests.pipelines.outcomes.shown import BEGIN, TIMES, Event, World, write_events

AT = (BEGIN + 60) * 10**6


def write(folder: Path, inputs: dict[str, Any], state: dict[str, Any] | None = None) -> None:
    """Writes a call that was answered a minute after the begin."""
    log = prediction_log_pb2.PredictionLog()
    for name, array in inputs.items():
        encode(np.array(array), log.predict_log.request.inputs[name], content=True)
    files = LogFiles(folder)
    text = json.dumps(state) if state else ""
    record = log.SerializeToString()
    files.append(Row(AT, "r", "live", 1, "Predict", "rank", 0.0, record, state=text))
    files.finish()


def joined(folder: Path, event: Event) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows, and what the manifest says of their hour."""
    world = World(folder, TIMES["seconds"], by_request=False)
    late = Event("", "", 1, AT + 3 * 3600 * 10**6, 1, None)
    write_events(world.events / "0.jsonl", [event, late], world.times)
    (hour,) = world.join().manifest.hours.values()
    return world.found(), hour


REQUESTS: dict[str, Any] = {
    "item": [[3, 5], [7, 3]],
    "price": np.zeros((2, 2), np.float32),
    "country": np.array([b"fi", b""], object),
    "user": np.array([b"u1", b"u2"], object),
}
STATE = {"as_of": str(BEGIN + 30), "lag_seconds": None, "is_degraded": False}


def test_requests_of_a_call_have_their_own_times(tmp_path: Path) -> None:
    write(tmp_path / "log", {**REQUESTS, "as_of": [BEGIN + 10, BEGIN + 30]}, STATE)
    click = Event("", "u1", 3, (BEGIN + 20) * 10**6, 1, None)
    rows, hour = joined(tmp_path, click)
    assert [row["request_id"] for row in rows] == ["r/0", "r/0", "r/1", "r/1"]
    assert [row["tick"] - BEGIN for row in rows] == [10, 10, 30, 30]
    assert [row["click"] for row in rows] == [1, 0, 0, 0]
    assert [row["country"] for row in rows] == ["fi", "fi", None, None]
    assert (hour["calls"], hour["requests"], hour["rows"]) == (1, 2, 4)
    assert {row["served_score_click"] for row in rows} == {None}


def test_requests_of_several_hours_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "log", {**REQUESTS, "as_of": [BEGIN - 10, BEGIN + 30]}, STATE)
    rows, hour = joined(tmp_path, Event("", "u1", 3, AT, 1, None))
    assert (rows, hour["rows"]) == ([], 0)
    assert hour["left_out"] == {"its requests are as of times of several hours": 1}


def test_call_of_another_schema_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "log", {"item": [[3]], "price": np.zeros((1, 1), np.float32)})
    rows, hour = joined(tmp_path, Event("", "u1", 3, AT, 1, None))
    assert rows == []
    assert hour["left_out"] == {"input 'country' is missing": 1}


def test_degraded_answer_has_the_time_of_its_arrival(tmp_path: Path) -> None:
    degraded = {"as_of": "", "lag_seconds": 0.5, "is_degraded": True}
    write(tmp_path / "log", {name: of[:1] for name, of in REQUESTS.items()}, degraded)
    rows, _ = joined(tmp_path, Event("", "u1", 5, AT, None, 1))
    assert [row["bought"] for row in rows] == [0, 1]
    assert {row["tick"] - BEGIN for row in rows} == {60}
    assert {(row["served_state"], row["served_lag_seconds"]) for row in rows} == {("degraded", 0.5)}
