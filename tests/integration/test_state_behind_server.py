"""A server with a store takes a user and items, and answers as with the values in the request."""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tensorflow_serving.apis import prediction_log_pb2

from serving.client import Client
from serving.client.pushed import Pushed
from serving.common.errors import InvalidArgument, Unavailable
from serving.common.status import State
from serving.config.server_config import ServerConfig
from serving.encoding.codec import decode
from serving.server.server import Server, create_server
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from serving.state.stores.store import StoreUnavailable
from tests.integration.commands import invoke
from tests.serving.commands import free_port
from tests.serving.conftest import wait_until
from tests.support.once import once
from tests.support.state_exports import NEWEST, write_state_export

ITEMS = [3, 11, 3, 999]
LATER = NEWEST + 3600


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "state-export", write_state_export) / "run" / "export" / "live"


@pytest.fixture(scope="module")
def store(export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    of = LmdbStore(folder)
    load_state(SavedState.open(export / "1/assets.extra/state"), of)
    of.close()
    return folder


@pytest.fixture(scope="module")
def values(export: Path, store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the store knows of user 5 and the items, read beside the server."""
    saved = SavedState.open(export / "1/assets.extra/state")
    of = LmdbStore(copied(store, tmp_path_factory.mktemp("beside")), writes=False)
    resolved = StateReader(of, saved.definition).values({"user": "5"}, {"item": ITEMS}, LATER)
    of.close()
    return {**resolved.context, **resolved.candidates}


@pytest.fixture(scope="module")
def server(
    export: Path, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, int]]:
    monitoring = tmp_path_factory.mktemp("monitoring") / "monitoring.config"
    monitoring.write_text('prometheus_config { enable: true path: "/metrics" }', "utf-8")
    config = ServerConfig(
        str(export),
        port=0,
        rest_api_port=free_port(),
        state=f"lmdb:{store}",
        monitoring_config_file=str(monitoring),
    )
    server, port = create_server(config)
    server.start()
    yield server, port
    server.stop()


@pytest.fixture
def client(server: tuple[Server, int]) -> Iterator[Client]:
    with Client(f"localhost:{server[1]}", timeout=60) as client:
        yield client


def copied(store: Path, folder: Path) -> Path:
    """A copy, as a process opens a folder once."""
    return Path(shutil.copytree(store, folder / "store"))


def whole(values: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The request with all values in it."""
    context = {name: values[name] for name in ("clicked", "ages", "country")}
    context |= {name: float(values[name]) for name in ("user_clicks", "height")}
    candidates = [
        {"item": item, "item_ctr": float(ctr), "pair_seen": float(seen)}
        for item, ctr, seen in zip(ITEMS, values["item_ctr"], values["pair_seen"], strict=True)
    ]
    return context, candidates


def test_user_and_items_are_enough(client: Client, values: dict[str, Any]) -> None:
    expected = client.rank(*whole(values))
    items = [{"item": item} for item in ITEMS]
    scores = client.rank({"user": "5", "as_of": LATER}, items)
    np.testing.assert_array_equal(scores["click"], expected["click"])
    nobody = client.rank({"as_of": LATER}, items)
    assert not np.array_equal(nobody["click"], expected["click"])


def test_values_of_the_request_win(client: Client, values: dict[str, Any]) -> None:
    context, candidates = whole({**values, "item_ctr": [0.9] * 4, "clicked": [1], "ages": [5.0]})
    expected = client.rank(context, candidates)
    scores = client.rank(
        {"user": "5", "as_of": LATER, "clicked": [1], "ages": [5.0]},
        [{"item": item, "item_ctr": 0.9} for item in ITEMS],
    )
    np.testing.assert_array_equal(scores["click"], expected["click"])


def test_rest_ranks_alike(server: tuple[Server, int], client: Client, values: Any) -> None:
    expected = client.rank(*whole(values))["click"]
    port = server[0].config.rest_api_port
    body = {"context": {"user": "5", "as_of": LATER}, "candidates": [{"item": i} for i in ITEMS]}
    url = f"http://localhost:{port}/v1/models/live:rank"
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
        scores = json.load(answer)["scores"]["click"]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_explanation_has_the_events_of_the_store(
    server: tuple[Server, int], client: Client, values: dict[str, Any]
) -> None:
    expected = client.explain(*whole(values))
    items = [{"item": item} for item in ITEMS]
    ranking = client.explain({"user": "5", "as_of": LATER}, items)
    assert ranking.events["clicked"].tolist() == values["clicked"]
    for history, weights in expected.attention.items():
        np.testing.assert_array_equal(ranking.attention[history], weights)
    assert expected.events == {}
    port = server[0].config.rest_api_port
    body = {"context": {"user": "5", "as_of": LATER}, "candidates": items, "explain": True}
    url = f"http://localhost:{port}/v1/models/live:rank"
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
        document = json.load(answer)
    assert document["explanation"]["events"]["clicked"] == values["clicked"]
    assert document["state"]["is_degraded"] is False
    assert document["state"]["as_of"] == str(LATER)


def test_log_has_the_values_that_were_used(
    export: Path, store: Path, values: dict[str, Any], tmp_path: Path
) -> None:
    config = ServerConfig(
        str(export),
        port=0,
        state=f"lmdb:{copied(store, tmp_path)}",
        prediction_log_dir=str(tmp_path / "log"),
        prediction_log_sampling_rate=1.0,
    )
    server, port = create_server(config)
    server.start()
    with Client(f"localhost:{port}", timeout=60) as client:
        client.rank({"user": "5", "as_of": LATER}, [{"item": item} for item in ITEMS])
    server.stop()
    (row,) = pq.read_table(tmp_path / "log").to_pylist()
    log = prediction_log_pb2.PredictionLog.FromString(row["log"])
    inputs = {name: decode(name, one) for name, one in log.predict_log.request.inputs.items()}
    assert inputs["clicked"][0].tolist() == values["clicked"]
    np.testing.assert_array_equal(inputs["item_ctr"][0], values["item_ctr"])
    state = json.loads(row["state"])
    assert state["as_of"] == str(LATER)
    of_user = {"clicked", "ages", "user_clicks", "country", "height"}
    assert set(state["names"]) == {*of_user, "item_ctr", "pair_seen"}
    assert inputs["country"].tolist() == [values["country"].encode()]


def test_pushed_events_change_the_answer(export: Path, store: Path, tmp_path: Path) -> None:
    config = ServerConfig(
        str(export),
        port=0,
        rest_api_port=free_port(),
        state=f"lmdb:{copied(store, tmp_path)}",
    )
    server, port = create_server(config)
    server.start()
    event = {"user": "5", "item": 3, "time": NEWEST + 60, "click": 1}
    items = [{"item": item} for item in ITEMS]
    try:
        with Client(f"localhost:{port}", model="live", timeout=60) as client:
            before = client.rank({"user": "5", "as_of": LATER}, items)["click"]
            assert client.push([event]) == Pushed(counted=1)
            after = client.rank({"user": "5", "as_of": LATER}, items)["click"]
            assert not np.array_equal(before, after)
            with pytest.raises(InvalidArgument, match=r"the column 'click' .* is missing"):
                client.push([{**event, "click": 1}, {"user": "5", "item": 3, "time": NEWEST}])
            with pytest.raises(InvalidArgument, match=r"'item'.*expected int64.*'three'"):
                client.push([{**event, "item": "three"}])
            assert client.push(users=[{"user": "5", "country": "se", "height": 9.5}]) == Pushed(0)
            taller = client.rank({"user": "5", "as_of": LATER}, items)["click"]
            assert not np.array_equal(after, taller)
            with pytest.raises(InvalidArgument, match=r"user 0: the column 'height'"):
                client.push(users=[{"user": "5", "country": "se"}])
            with pytest.raises(InvalidArgument, match=r"no static features of items"):
                client.push(items=[{"item": 3, "price": 2.0}])
        url = f"http://localhost:{config.rest_api_port}/v1/models/live:push"
        people = [{"user": "5", "country": None, "height": None}]
        body = {"events": [{**event, "click": 0}, {**event, "time": 2**40}], "users": people}
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
            assert json.load(answer) == {
                "counted": 1, "late": [], "ahead": [1], "repeated_events": []
            }  # fmt: skip
        url = url.replace(":push", ":rank")
        body = {"context": {"user": "5", "as_of": LATER}, "candidates": items}
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
            assert json.load(answer)["scores"]["click"] != taller.tolist()
    finally:
        server.stop()
    with Client(f"localhost:{port}", timeout=1) as client, pytest.raises(Unavailable):
        client.push([event])


def test_logged_values_are_those_of_a_replay(export: Path, store: Path, tmp_path: Path) -> None:
    config = ServerConfig(
        str(export),
        port=0,
        state=f"lmdb:{copied(store, tmp_path)}",
        allow_push=True,
        prediction_log_dir=str(tmp_path / "log"),
        prediction_log_sampling_rate=1.0,
    )
    server, port = create_server(config)
    server.start()
    event = {"user": "5", "item": 3, "time": NEWEST + 60, "click": 1}
    with Client(f"localhost:{port}", model="live", timeout=60) as client:
        client.push([event])
        time.sleep(1.1)  # the server keeps the states of items for a second, from its warm-up on
        for user in map(str, range(7)):
            client.rank({"user": user, "as_of": LATER}, [{"item": item} for item in ITEMS])
            client.rank({"user": user}, [{"item": item} for item in ITEMS])
    server.stop()
    run = Path(shutil.copytree(export.parents[1], tmp_path / "run"))
    events = tmp_path / "events"
    events.mkdir()
    (events / "0.jsonl").write_text(json.dumps(event) + "\n")
    result = invoke("skew", run, "--log", tmp_path / "log", "--state", events)
    assert "store: 14 requests of 7 users against 1 events" in result.output
    state = json.loads((run / "skew.json").read_text())["state"]
    assert (state["unequal"], state["notes"], state["left_out"]) == (0, [], {})
    assert {name: column["equal"] for name, column in state["columns"].items()} == {
        "clicked": 14, "ages": 14, "user_clicks": 14, "item_ctr": 56, "pair_seen": 56
    }  # fmt: skip
    assert "Values of the store" in (run / "skew.html").read_text()


def test_without_the_store_features_are_missing(
    server: tuple[Server, int], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"item": item} for item in ITEMS]
    nothing = client.rank({"user": "nobody", "as_of": LATER, "user_clicks": None}, items)
    assert nothing["click"].shape == (4,)

    def lost(*_: object) -> None:
        raise StoreUnavailable("The store is away.")

    monkeypatch.setattr(LmdbStore, "read", lost)
    time.sleep(1.1)  # the server keeps the states of items for a second
    scores = client.rank({"user": "5", "as_of": LATER}, items)["click"]
    assert np.isfinite(scores).all()
    port = server[0].config.rest_api_port
    body = {"context": {"user": "5", "as_of": LATER}, "candidates": items}
    url = f"http://localhost:{port}/v1/models/live:rank"
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
        assert answer.headers["x-state"] == "degraded"
        document = json.load(answer)
    assert document["state"]["is_degraded"] is True
    np.testing.assert_allclose(document["scores"]["click"], scores, rtol=1e-6)
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    assert 'state_count_total{model_name="live",result="degraded"} 2.0' in page
    assert re.search(r":recsys_attn:serving:state_bytes [1-9]", page)


def test_version_waits_for_its_state(export: Path, tmp_path: Path) -> None:
    LmdbStore(tmp_path / "empty").close()
    config = ServerConfig(str(export), port=0, state=f"lmdb:{tmp_path}/empty")
    server, port = create_server(config)
    server.start()
    try:
        with Client(f"localhost:{port}", model="live", timeout=60) as client:
            (status,) = client.status()
            assert status.state is not State.AVAILABLE
            assert "by item, user and item, user, all rows. Load it" in str(status.error)
            assert server.states is not None
            load_state(SavedState.open(export / "1/assets.extra/state"), server.states.store)
            wait_until(lambda: client.status()[0].state is State.AVAILABLE)
    finally:
        server.stop()
