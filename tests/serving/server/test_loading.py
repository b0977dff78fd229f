"""A server answers while its models load: not ready, by status, health and message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.client import Client, ClientOptions
from serving.common.errors import Unavailable
from serving.common.status import State, VersionStatus
from serving.config.server_config import ServerConfig
from serving.server.loader import Loader
from serving.server.server import create_server
from tests.serving.commands import free_port
from tests.serving.exports import install
from tests.serving.rest.conftest import ask_port

ONCE = ClientOptions(attempts=1)
CONFIG = """model_config_list {{
  config {{ name: "first" base_path: "{0}/first" model_platform: "tensorflow" }}
  config {{ name: "second" base_path: "{0}/second" model_platform: "tensorflow" }}
}}"""


class _Held:
    """Holds each load until it is let go."""

    def __init__(self) -> None:
        self.loads: dict[str, threading.Event] = {n: threading.Event() for n in ("first", "second")}

    def holding(self, load: Any) -> Any:
        def held(loader: Loader, name: str, version: int, path: Path) -> Any:
            assert self.loads[name].wait(30)
            return load(loader, name, version, path)

        return held


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> _Held:
    held = _Held()
    monkeypatch.setattr(Loader, "__call__", held.holding(Loader.__call__))
    return held


@pytest.fixture
def starting(held: _Held, tmp_path: Path, twofold: Path) -> Iterator[tuple[str, int]]:
    """The addresses of a server that starts with two models, whose loads are held."""
    for name in held.loads:
        install(twofold, tmp_path / name, 5)
    (tmp_path / "models").write_text(CONFIG.format(tmp_path))
    rest = free_port()
    config = ServerConfig(model_config_file=str(tmp_path / "models"), port=0, rest_api_port=rest)
    server, port = create_server(config)
    start = threading.Thread(target=server.start)
    start.start()
    address = f"127.0.0.1:{port}"
    with Client(address, model="first") as client:
        _until(lambda: client.status() == [VersionStatus(5, State.LOADING)])
    yield address, rest
    for event in held.loads.values():
        event.set()
    start.join()
    server.stop()


def _until(is_so: Any) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_loading_model_is_not_ready(starting: tuple[str, int]) -> None:
    address, rest = starting
    words = "Model 'first' is still loading version 5. Try again, or wait until its health is"
    with Client(address, model="first", options=ONCE) as first:
        for call in (lambda: first.predict_rows([{}]), first.metadata):
            with pytest.raises(Unavailable, match=words):
                call()
        assert not first.health()
        assert not first.health("")
    with Client(address, model="second") as second:
        assert second.status() == [VersionStatus(5, State.START)], "it waits for its turn"
    assert ask_port(rest, "GET", "/healthz") == (200, "ok\n")
    assert ask_port(rest, "GET", "/readyz") == (503, "not ready: loading first, second\n")
    status, document = ask_port(rest, "POST", "/v1/models/first:rank", {"candidates": [{"a": 1}]})
    assert (status, document["error"][: len(words)]) == (503, words)


def test_each_model_serves_once_it_is_loaded(starting: tuple[str, int], held: _Held) -> None:
    address, rest = starting
    patient = ClientOptions(initial_backoff=0.5)
    with Client(address, model="first", timeout=20.0, options=patient) as first:
        threading.Timer(0.3, held.loads["first"].set).start()
        assert first.predict_rows([{"price": 1.0}])["click"].tolist() == [2], "it was tried again"
        _until(first.health)
        assert ask_port(rest, "GET", "/readyz") == (503, "not ready: loading second\n")
        held.loads["second"].set()
        _until(lambda: first.health(""))
    assert ask_port(rest, "GET", "/readyz") == (200, "ready\n")
