"""Targets of gRPC channels for one address and for several."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from serving.common.addresses import Addresses
from tests.serving.client.conftest import Connect, StartStub
from tests.serving.conftest import wait_until


def test_calls_are_balanced_over_all_addresses(connect: Connect, start_stub: StartStub) -> None:
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
        (["[::1]:1", "[::1]:2"], "ipv6:[::1]:1,[::1]:2"),
        ("dns:///ctr:8500", "dns:///ctr:8500"),
        ("localhost:1", "localhost:1"),
        (["four:1", "four:2", "10.0.0.1:1"], "ipv4:10.0.0.1:1,10.0.0.1:2"),
        (["six:1", "absent:2"], "ipv6:[fd00::1]:1"),
        (["six:1", "four:2"], "ipv4:10.0.0.1:2"),
        (["absent:1", "absent:2"], "absent:1"),
    ],
)
def test_addresses_become_a_grpc_target(
    given: Any, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, resolve = {"four": "10.0.0.1", "six": "fd00::1"}, socket.getaddrinfo

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        if host == "absent":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return resolve(known.get(host, host), port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert Addresses.read(given).target() == target
