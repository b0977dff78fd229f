"""Several addresses: what gRPC connects to, also while names change or cannot be looked up."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from serving.common.addresses import Addresses, Target
from tests.serving.client.conftest import Connect, StartStub
from tests.serving.conftest import wait_until


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
    assert Target(Addresses.read(given)).name == target


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The names that can be looked up, each with its address; they are looked up at each use."""
    known: dict[str, str] = {}

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        family = socket.AF_INET6 if ":" in known[host] else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (known[host], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("serving.common.addresses.REFRESH_SECONDS", 0.0)
    return known


def test_names_are_looked_up_again(known: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known["a"] = "10.0.0.1"
    target = Target(Addresses(("a:1", "b:2")))
    assert target.name == "ipv4:10.0.0.1:1", "what is not known yet is left out"
    assert target.is_due()
    assert not target.refresh()
    known.update(a="10.0.0.7", b="10.0.0.2")
    assert target.refresh()
    assert target.name == "ipv4:10.0.0.7:1,10.0.0.2:2"
    monkeypatch.setattr("serving.common.addresses.REFRESH_SECONDS", 30.0)
    assert not target.is_due()


def test_what_cannot_be_looked_up_for_a_moment_stays(known: dict[str, str]) -> None:
    known.update(a="10.0.0.1", b="10.0.0.2")
    target = Target(Addresses(("a:1", "b:2")))
    known.clear()
    assert not target.refresh()
    assert target.name == "ipv4:10.0.0.1:1,10.0.0.2:2"
    known["a"] = "10.0.0.7"
    assert target.refresh()
    assert target.name == "ipv4:10.0.0.7:1,10.0.0.2:2", "and so does each name alone"


def test_names_of_one_family_at_a_time(known: dict[str, str]) -> None:
    known["b"] = "fd00::2"
    target = Target(Addresses(("a:1", "b:2")))
    assert target.name == "ipv6:[fd00::2]:2"
    known["a"] = "10.0.0.1"
    assert target.refresh()
    assert target.name == "ipv4:10.0.0.1:1"
    known["a"] = "fd00::1"
    assert target.refresh()
    assert target.name == "ipv6:[fd00::1]:1,[fd00::2]:2"


@pytest.mark.usefixtures("known")
def test_of_names_that_were_never_found_grpc_says_what_is_wrong() -> None:
    assert Target(Addresses(("a:1", "b:2"))).name == "a:1"


def test_a_channel_follows_the_names(
    connect: Connect, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = start_stub(), start_stub()
    now = [before]

    monkeypatch.setattr(Addresses, "look_up", lambda self: {"a:1": [now[0].address]})
    monkeypatch.setattr("serving.common.addresses.REFRESH_SECONDS", 0.0)
    handle = connect(["a:1", "b:1"])
    handle.predict()
    now[0] = after
    for _ in range(1000):
        handle.predict()
        if after.seen:
            break
    assert before.seen
    assert after.seen
