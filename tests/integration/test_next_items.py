"""A trained next-item model on the server: gRPC, REST and the command `request`."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from serving.cli import request
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from tests.integration.commands import invoke
from tests.serving.commands import free_port
from tests.support.next_exports import TOP, histories, write_next_export
from tests.support.once import once

EXPERIMENT = """
name = "next"
max_length = 7

[data]
source = "events"
path = "{folder}/events.parquet"
user = "user"
item = "item"
time = "time"
split = {{ by = "last" }}

[model]
name = "sasrec"
width = 8
positions = "rotary"

[training]
batch_size = 61
epochs = 1

[export]
top = 5
"""
EVENTS = histories(["i1", "i2", "i3"], ["unknown", "i5"], [])
CANDIDATES = histories(["i4", "i7"], ["i5", "unknown"], ["i9", "i1"])
NOTHING = histories([], [], [])


def _write_events(path: Path) -> None:
    """Users who go through a circle of 19 items, from different ones."""
    rng = np.random.default_rng(7)
    rows = []
    for user in range(127):
        start = int(rng.integers(19))
        for n in range(int(rng.integers(3, 11))):
            rows.append((f"u{user}", f"i{(start + n) % 19}", 1_700_000_000 + 101 * n))
    users, items, times = zip(*rows, strict=True)
    pq.write_table(pa.table({"user": users, "item": items, "time": times}), path)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a model that can step."""
    return (
        once(tmp_path_factory, "next-export", lambda folder: write_next_export(folder / "next"))
        / "next"
    )


def trained(folder: Path) -> Path:
    """The export of a model that was trained by the commands."""
    _write_events(folder / "events.parquet")
    (folder / "next.toml").write_text(EXPERIMENT.format(folder=folder), "utf-8")
    for step in ("ingest", "fit", "train", "export"):
        result = invoke(step, folder / "next.toml", "--run-dir", folder / "run")
        assert result.exit_code == 0, result.output
    return folder / "run" / "export" / "next"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="single"),
        pytest.param(True, id="batched", marks=pytest.mark.thorough),
    ],
)
def server(export: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    config = ServerConfig(
        str(export), port=0, rest_api_port=free_port(), enable_batching=request.param
    )
    server, port = create_server(config)
    server.start()
    yield f"localhost:{port}", f"http://localhost:{server.listener.rest.port}/v1/models/next"
    server.stop()


@pytest.fixture
def client(server: tuple[str, str]) -> Iterator[Client]:
    with Client(server[0], timeout=60) as client:
        yield client


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.mark.thorough
def test_a_trained_model_takes_items_only(tmp_path: Path) -> None:
    """Not ages: SASRec does not read them."""
    server, port = create_server(ServerConfig(str(trained(tmp_path)), port=0))
    server.start()
    try:
        with Client(f"localhost:{port}", timeout=60) as client:
            signatures = client.metadata().signatures
    finally:
        server.stop()
    assert set(signatures["next_items"].inputs) == {"item", "exclude"}
    assert set(signatures["rank"].inputs) == {"item", "candidate"}


def test_next_items_have_the_scores_of_rank(client: Client) -> None:
    found = client.predict({"item": EVENTS, "exclude": NOTHING}, signature_name="next_items")
    assert found["items"].shape == (3, TOP)
    ranked = client.predict({"item": EVENTS, "candidate": found["items"]}, signature_name="rank")
    np.testing.assert_allclose(ranked["score"], found["scores"], atol=1e-5)
    for row, items in zip(EVENTS, found["items"], strict=True):
        assert not set(row) & set(items), "items of the history are left out"


def test_excluded_items_are_left_out(client: Client) -> None:
    first = client.predict({"item": EVENTS, "exclude": NOTHING})["items"]
    again = client.predict({"item": EVENTS, "exclude": first[:, :2]})["items"]
    np.testing.assert_array_equal(again[:, :-2], first[:, 2:])


def test_rest_answers_as_grpc(client: Client, server: tuple[str, str]) -> None:
    found = client.predict({"item": EVENTS[:2], "exclude": NOTHING[:2]})
    inputs = {
        "item": [[value.decode() for value in row] for row in EVENTS[:2]],
        "exclude": [[""], [""]],
    }
    outputs = _post(f"{server[1]}:predict", {"inputs": inputs})["outputs"]
    np.testing.assert_array_equal(np.array(outputs["items"]), found["items"].astype(str))
    np.testing.assert_allclose(outputs["scores"], found["scores"], rtol=1e-5)


def test_the_rank_api_takes_candidates_of_a_history(
    client: Client, server: tuple[str, str]
) -> None:
    inputs = {"item": EVENTS[:1], "candidate": CANDIDATES[:1]}
    expected = client.predict(inputs, signature_name="rank")["score"][0]
    context = {"item": ["i1", "i2", "i3"]}
    candidates = [{"candidate": "i4"}, {"candidate": "i7"}]
    np.testing.assert_allclose(client.rank(context, candidates)["score"], expected, rtol=1e-5)
    body = {"context": context, "candidates": candidates}
    answer = _post(f"{server[1]}:rank", body)
    np.testing.assert_allclose(answer["scores"]["score"], expected, rtol=1e-5)
    assert answer["ranking"] == np.argsort(-expected).tolist()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_command_shows_items_as_text(server: tuple[str, str], options: tuple[str, ...]) -> None:
    document = json.dumps({"rows": [{"item": ["i1", "i2"]}, {"item": ["i5"], "exclude": ["i6"]}]})
    arguments = ["--address", server[0], "--timeout", "60", *options]
    result = CliRunner().invoke(request, arguments, input=document)
    assert result.exit_code == 0, result.output
    assert "b'" not in result.output
    if options:
        items = json.loads(result.output)["scores"]["items"]
        assert all(item.startswith("i") for row in items for item in row)


def test_the_server_keeps_states_of_users(export: Path, tmp_path: Path) -> None:
    """By gRPC, REST and the Rank API; the metrics count them."""
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true }", "utf-8")
    port = free_port()
    server, own = create_server(
        ServerConfig(
            str(export),
            port=0,
            rest_api_port=port,
            monitoring_config_file=str(monitoring),
            enable_batching=True,
            user_states=3,
        )
    )
    server.start()
    url = f"http://localhost:{port}"
    items, candidates = ["i1", "i2", "i3"], ["i4", "i7"]
    inputs = {"item": [items], "candidate": [candidates]}
    try:
        with Client(f"localhost:{own}", timeout=60) as client:
            arrays = {name: histories(*rows) for name, rows in inputs.items()}
            expected = client.predict(arrays, signature_name="rank")["score"]
            user = np.array([b"u"], object)
            first = {**arrays, "item": arrays["item"][:, :1], "user": user}
            client.predict(first, signature_name="rank")
            again = client.predict({**arrays, "user": user}, signature_name="rank")["score"]
            np.testing.assert_allclose(again, expected, atol=1e-5)
            context = {"item": items, "user": "u"}
            rows = [{"candidate": name} for name in candidates]
            scores = client.rank(context, rows)["score"]
            np.testing.assert_allclose(scores, expected[0], atol=1e-5)
        body = {"signature_name": "rank", "inputs": {**inputs, "user": ["u"]}}
        answer = _post(f"{url}/v1/models/next:predict", body)
        np.testing.assert_allclose(answer["outputs"], expected, atol=1e-5)
        answer = _post(f"{url}/v1/models/next:rank", {"context": context, "candidates": rows})
        np.testing.assert_allclose(answer["scores"]["score"], expected[0], atol=1e-5)
        with urllib.request.urlopen(f"{url}/monitoring/prometheus/metrics") as page:
            text = page.read().decode()
    finally:
        server.stop()
    name = 'user_state_count_total{model_name="next",result='
    assert f'{name}"hit"}} 4.0' in text
    assert f'{name}"miss"}} 1.0' in text
