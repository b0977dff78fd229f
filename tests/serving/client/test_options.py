"""What a client may be told, and what it says of the rest."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from serving.client import AsyncClient, Client, Options
from serving.client.addresses import Addresses, Target
from serving.errors import InvalidArgument
from tests.serving.client.conftest import Connect, StartStub
from tests.serving.conftest import wait_until


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"addresses": "ctr"}, "`addresses` must be host:port, .* Received: 'ctr'"),
        ({"addresses": []}, "at least one host:port"),
        ({"addresses": ["a:1", "dns:///b:1"]}, "Received: 'dns:///b:1'"),
        ({"addresses": "http://ctr:8501/v1"}, "must be host:port"),
        ({"version": 5, "label": "stable"}, "exclude each other. Received: 5 and 'stable'"),
        ({"version": "5"}, "`version` must be an integer. Received: '5'"),
        ({"timeout": 0}, "`timeout` must be a positive number. Received: 0"),
        ({"timeout": "5"}, "`timeout` must be a positive number. Received: '5'"),
    ],
)
def test_a_client_that_cannot_be(kind: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        kind(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 6}, "`attempts` must be an integer from 1 to 5. Received: 6"),
        ({"retry_tokens": 0.5}, "`retry_tokens` must be an integer from 1 to 1000"),
        ({"max_backoff": -1}, "`max_backoff` must be a positive number"),
        ({"initial_backoff": 0.001}, "must be at least 0.01 s. Received: 0.001"),
        ({"keep_alive": 0}, "`keep_alive` must be a positive number"),
        ({"metadata": {"X-Team": "ads"}}, "must be lower-case .* Received: 'X-Team'"),
        ({"metadata": {"x-team": "a\nb"}}, r"`metadata\['x-team'\]` must be printable ASCII"),
        ({"metadata": {"x-bin": "text"}}, r"`metadata\['x-bin'\]` must be bytes"),
        ({"metadata": {"authorization": "x"}}, "leave 'authorization' to `token`"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Options(**options)


def test_headers_of_the_client_and_of_the_call(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    options = Options(metadata={"x-team": "ads", "x-stage": "test"}, keep_alive=600.0)
    handle = connect(stub.address, options=options)
    handle.predict()
    handle.predict(metadata={"x-team": "shop"}, request_id="r-1")
    first, second = (seen.metadata for seen in stub.seen)
    assert (first["x-team"], first["x-stage"], len(first["x-request-id"])) == ("ads", "test", 32)
    assert (second["x-team"], second["x-stage"]) == ("shop", "test")
    assert second["x-request-id"] == "r-1"
    with pytest.raises(InvalidArgument, match="`request_id` must be printable ASCII"):
        handle.predict(request_id="r\n1")
    with pytest.raises(InvalidArgument, match="leave 'x-request-id' to `request_id`"):
        handle.predict(metadata={"x-request-id": "r"})
    with pytest.raises(InvalidArgument, match="`timeout` must be a positive number"):
        handle.predict(timeout=-1)
    with pytest.raises(TypeError, match=r"'timeot'.* timeout, request_id, metadata"):
        handle.predict(timeot=1)


def test_idle_connections_are_tested_where_wanted() -> None:
    def chosen(options: Options) -> dict[str, int]:
        return {k: v for k, v in options.channel_options() if k.startswith("grpc.keepalive")}

    assert chosen(Options()) == {}
    assert chosen(Options(keep_alive=600.0, keep_alive_timeout=2.5)) == {
        "grpc.keepalive_time_ms": 600_000,
        "grpc.keepalive_timeout_ms": 2_500,
        "grpc.keepalive_permit_without_calls": 1,
    }


def test_calls_go_round_all_addresses(connect: Connect, start_stub: StartStub) -> None:
    stubs = [start_stub() for _ in range(3)]
    handle = connect([stub.address for stub in stubs])
    wait_until(lambda: bool(handle.predict()) and all(stub.seen for stub in stubs))
    for stub in stubs:
        stub.seen.clear()
    for _ in range(30):
        handle.predict()
    assert [len(stub.seen) for stub in stubs] == [10, 10, 10]


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (["127.0.0.1:1", "127.0.0.2:2"], "ipv4:127.0.0.1:1,127.0.0.2:2"),
        (["localhost:1", "127.0.0.1:1", "localhost:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        (["[::1]:1", "[::1]:2"], "ipv6:[::1]:1,[::1]:2"),
        ("dns:///ctr:8500", "dns:///ctr:8500"),
        ("localhost:1", "localhost:1"),
    ],
)
def test_what_grpc_connects_to(given: Any, target: str) -> None:
    assert Addresses.read(given).target() == target


def test_names_are_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"a": "10.0.0.1"}

    def look_up(host: str, port: int, *rest: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    target = Target(Addresses(("a:1", "b:2")))
    assert target.name == "ipv4:10.0.0.1:1", "what is not known yet is left out"
    assert not target.is_due()
    monkeypatch.setattr("serving.client.addresses.REFRESH_SECONDS", 0.0)
    assert target.is_due()
    assert not target.refresh()
    known.update(a="10.0.0.7", b="10.0.0.2")
    assert target.refresh()
    assert target.name == "ipv4:10.0.0.7:1,10.0.0.2:2"
    known.clear()
    assert Addresses(("a:1", "b:2")).target() == "a:1", "gRPC then says what is wrong"


def test_a_channel_follows_the_names(
    connect: Connect, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = start_stub(), start_stub()
    now = [before]

    def target(addresses: Addresses) -> str:
        return f"ipv4:127.0.0.1:{now[0].port}"

    monkeypatch.setattr(Addresses, "target", target)
    monkeypatch.setattr("serving.client.addresses.REFRESH_SECONDS", 0.0)
    handle = connect(["a:1", "b:1"])
    handle.predict()
    now[0] = after
    for _ in range(1000):
        handle.predict()
        if after.seen:
            break
    assert before.seen
    assert after.seen
