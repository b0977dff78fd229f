"""The serving benchmark's arithmetic: rates of a closed loop, ratios of the turns."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from benchmarks.servers.load import Load, call, rate
from benchmarks.servers.subjects import EVENTS, fitted_of, schema_of, write_requests
from benchmarks.servers.tables import IN_PROCESS, RUNTIME, Cell, measured, ratios
from serving.encoding.codec import decode


def test_rate_counts_answers_within_the_time() -> None:
    np.testing.assert_allclose(rate([0.2, 0.4, 0.5, 3.0], seconds=1.0), 3 / 0.5)
    np.testing.assert_allclose(rate([2.0, 4.0], seconds=1.0), 2 / 4.0)


def test_load_sends_all_requests_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that only the requests move."""
    lock, sent, now = threading.Lock(), [], 0.0
    clock = SimpleNamespace(perf_counter=lambda: now, process_time=lambda: 0.0)
    monkeypatch.setattr("benchmarks.servers.load.time", clock)

    def send(request: bytes) -> bytes:
        nonlocal now
        with lock:
            now += 0.002
            sent.append(request)
        return b""

    load = call([send], [b"a", b"b", b"c"], callers=5, seconds=0.05)
    assert set(sent) == {b"a", b"b", b"c"}
    assert len(load.latencies) == len(sent)
    assert min(load.latencies) >= 0.002


def test_ratios_are_medians_of_turns() -> None:
    cell = Cell("din", 200, 1, "ours")
    loads = {
        cell: Load([6.0, 8.0, 30.0], [0.2, 0.3, 0.9], processor=0.3),
        cell._replace(contender="plain"): Load([3.0, 2.0, 3.0], [0.5, 0.5, 0.5]),
        cell._replace(contender=IN_PROCESS): Load([9.0, 9.0, 9.0], [0.1, 0.2, 0.2]),
        cell._replace(contender=RUNTIME): Load([9.0, 9.0, 9.0], [0.4, 0.4, 0.9]),
    }
    (row,) = zip(*(column.cells for column in ratios(loads).columns), strict=True)
    assert row == ("din", "200", "ours", "4.00", "1.50", "0.75")
    assert list(measured("din", loads).columns[-2].cells) == ["100.00", "0.00", "0.00", "0.00"]


@pytest.mark.parametrize("name", ["autoint", "din"])
def test_both_ways_send_the_same_candidates(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    schema = fitted_of(schema_of(name), rng).schema
    write_requests(tmp_path / "new", name, schema, 3, seed=1)
    rank, tiled = (
        predict_pb2.PredictRequest.FromString((tmp_path / "new" / f"{way}-0").read_bytes())
        for way in ("rank", "tiled")
    )
    assert set(rank.inputs) == set(tiled.inputs) == {f.name for f in schema.features}
    for feature in schema.features:
        once, rows = (decode(feature.name, r.inputs[feature.name]) for r in (rank, tiled))
        if feature.side == "candidate":
            np.testing.assert_array_equal(once[0], rows)
        else:
            np.testing.assert_array_equal(np.repeat(once, 3, axis=0), rows)
    if name == "din":
        assert decode("seen", tiled.inputs["seen"]).shape == (3, EVENTS)
