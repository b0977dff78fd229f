"""Connections without a request are closed, whatever they send instead of one."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Callable

import pytest

from serving.rest import protocol
from serving.rest.server import RestServer

SECONDS = 0.3
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def port(rest: Callable[..., RestServer], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", SECONDS)
    return rest().port


def _closed_after(connection: socket.socket) -> float:
    """Seconds until the server closes, while it gets a byte now and then."""
    begin = time.monotonic()
    connection.settimeout(SECONDS / 10)
    while time.monotonic() < begin + 20 * SECONDS:
        try:
            if not connection.recv(1000):
                break
        except TimeoutError:
            with contextlib.suppress(OSError):
                connection.send(b"a")
        except ConnectionResetError:
            break
    return time.monotonic() - begin


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="no-request"),
        pytest.param(b"GET / HTTP/1.1\r\nX: ", id="half-a-head"),
        pytest.param(REQUEST + b"GET /", id="half-a-second-head"),
        pytest.param(
            b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"
            + b"a" * 20_000,
            id="a-body-that-was-answered",
        ),
    ],
)
def test_it_is_closed(port: int, start: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(start)
        assert _closed_after(connection) < 10 * SECONDS


def test_one_that_asks_stays(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.connect()
    kept = connection.sock
    for _ in range(6):
        connection.request("GET", "/healthz")
        with connection.getresponse() as response:
            assert (response.status, response.read()) == (200, b"ok\n")
        time.sleep(SECONDS / 3)
    assert connection.sock is kept
    connection.close()
