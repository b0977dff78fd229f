"""Exports and servers that the tests of serving share."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from serving.config.server_config import ServerConfig
from serving.server.server import Server, create_server
from tests.serving.exports import install, write_model

StartServer = Callable[..., tuple[Server, str]]


@pytest.fixture(scope="session", autouse=True)
def _frozen_imports() -> None:
    """Closing a session collects garbage, which is fast without the imports."""
    gc.freeze()


@pytest.fixture(scope="session")
def twofold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export that weighs the price 2."""
    return write_model(tmp_path_factory.mktemp("exports") / "twofold", 2.0)


@pytest.fixture(scope="session")
def threefold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export that weighs the price 3."""
    return write_model(tmp_path_factory.mktemp("exports") / "threefold", 3.0)


@pytest.fixture
def base_path(tmp_path: Path, twofold: Path) -> Path:
    """A model's folder with version 5."""
    install(twofold, tmp_path / "tiny", 5)
    return tmp_path / "tiny"


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts servers on free ports that poll quickly; they stop with the test."""
    servers = []

    def start(base_path: Path, **options: object) -> tuple[Server, str]:
        settings = {"file_system_poll_wait_seconds": 0.05, "grace_seconds": 5.0, **options}
        server, port = create_server(ServerConfig(str(base_path), port=0, **settings))
        server.start()
        servers.append(server)
        return server, f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory, twofold: Path) -> Iterator[str]:
    """One server with version 5 of the model `tiny`, for tests that change nothing."""
    base_path = tmp_path_factory.mktemp("models") / "tiny"
    install(twofold, base_path, 5)
    server, port = create_server(
        ServerConfig(str(base_path), port=0, file_system_poll_wait_seconds=0)
    )
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def shared_channel(shared_address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(shared_address) as channel:
        yield channel


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns once the condition holds, and fails if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"Not within {seconds} s: {condition}")
        time.sleep(0.01)
