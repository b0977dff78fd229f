"""A REST server with the model `tiny`, and requests to it by the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from serving.config.server_config import ServerConfig
from serving.inference.service import InferenceService
from serving.rest.app import Rest
from serving.rest.http_server import RestServer, bound
from serving.server.server import create_server
from tests.serving.exports import install

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def rest(
    tmp_path_factory: pytest.TempPathFactory, twofold: Path
) -> Iterator[Callable[..., RestServer]]:
    """Starts REST servers in front of version 5 of `tiny`."""
    base_path = tmp_path_factory.mktemp("models") / "tiny"
    install(twofold, base_path, 5)
    backend, _ = create_server(ServerConfig(str(base_path), port=0))
    backend.manager.poll()
    with contextlib.ExitStack() as stack:
        stack.callback(backend.stop)
        executor = stack.enter_context(futures.ThreadPoolExecutor(4))

        def start(**options: Any) -> RestServer:
            settings = {
                "timeout_seconds": 10.0,
                "max_bytes": 10_000,
                "is_ready": lambda: True,
                "loading": tuple,
                "is_draining": lambda: False,
                "admit": lambda header: None,
                "admit_push": lambda header: None,
                **options,
            }
            inference = InferenceService(
                backend.manager, settings.pop("observers", []), settings.pop("admission", None)
            )
            address = bound("127.0.0.1", 0, "rest_api_port")
            grace = settings.pop("grace_seconds", 5.0)
            server = RestServer(address, None, grace)
            server.app = Rest(inference, executor, **settings).app()
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="module")
def ask(rest: Callable[..., RestServer]) -> Ask:
    """Asks a server: method, path, body (JSON, or bytes as they are) -> status, document."""
    port = rest().port
    return lambda *arguments, **options: ask_port(port, *arguments, **options)


def ask_port(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(method, path, content, headers or {})
    with contextlib.closing(connection), connection.getresponse() as response:
        text = response.read()
        if response.getheader("content-type") == "application/json":
            return response.status, json.loads(text)
        return response.status, text.decode()
