"""Health follows the versions, for clients that check and for clients that watch."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.rpc.health import Health
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def _check(channel: grpc.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5.0).status


def _list(channel: grpc.Channel) -> dict[str, int]:
    statuses = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest()).statuses
    return {name: answer.status for name, answer in statuses.items()}


def test_failing_new_model_takes_no_other_out_of_rotation() -> None:
    health = Health()

    def statuses(**available: bool) -> dict[str, int]:
        health.report(available)
        return {name: one.status for name, one in health.List(None, None).statuses.items()}

    assert statuses(a=True, b=False) == {"": NOT_SERVING, "a": SERVING, "b": NOT_SERVING}
    assert statuses(a=True, b=True) == {"": SERVING, "a": SERVING, "b": SERVING}
    assert statuses(a=True, b=True, c=False)[""] == SERVING
    assert statuses(a=True, b=False) == {"": NOT_SERVING, "a": SERVING, "b": NOT_SERVING}
    assert statuses(a=True, c=True) == {"": SERVING, "a": SERVING, "c": SERVING}
    health.drain()
    assert not health.is_serving
    assert set(statuses(a=True, c=True).values()) == {NOT_SERVING}


def test_health_service_can_be_switched_off(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(base_path, enable_grpc_healthcheck_service=False)
    with grpc.insecure_channel(address) as channel:
        assert send(channel, predict()).outputs
        with pytest.raises(grpc.RpcError) as raised:
            _check(channel, "")
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_health_follows_the_versions_and_the_drain(
    tmp_path: Path, twofold: Path, start_server: StartServer
) -> None:
    """Watches receive each change once, and end with the drain."""
    base_path = tmp_path / "tiny"
    base_path.mkdir()
    server, address = start_server(base_path, grace_seconds=20.0)
    received: queue.Queue[int] = queue.Queue()

    def watch(channel: grpc.Channel, service: str) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        for answer in stub.Watch(health_pb2.HealthCheckRequest(service=service)):
            received.put(answer.status)

    with grpc.insecure_channel(address) as channel:
        assert [_check(channel, name) for name in ("", "tiny")] == [NOT_SERVING, NOT_SERVING]
        names = ("tiny", "ctr")
        watchers = [threading.Thread(target=watch, args=(channel, name)) for name in names]
        for watcher in watchers:
            watcher.start()
        assert {received.get(timeout=5.0) for _ in watchers} == {NOT_SERVING, UNKNOWN}
        install(twofold, base_path, 1)
        assert received.get(timeout=10.0) == SERVING
        wait_until(lambda: _check(channel, "") == SERVING)
        assert _list(channel) == {"": SERVING, "tiny": SERVING}
        with pytest.raises(grpc.RpcError) as raised:
            _check(channel, "ctr")
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND
        assert raised.value.details() == "No model is named 'ctr'."
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 10.0
        for watcher in watchers:
            watcher.join(timeout=5.0)
            assert not watcher.is_alive()
        assert [received.get_nowait() for _ in range(received.qsize())] == [NOT_SERVING]


def test_open_watches_hold_up_no_other_call(base_path: Path, start_server: StartServer) -> None:
    """Many watches take no threads; some end while the status changes."""
    server, address = start_server(base_path)
    request = health_pb2.HealthCheckRequest(service="tiny")
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        before = threading.active_count()
        watches = [stub.Watch(request) for _ in range(200)]
        assert {next(one).status for one in watches} == {SERVING}
        for one in watches[::20]:
            one.cancel()
            server.listener.health.report({"tiny": False})
            server.listener.health.report({"tiny": True})
        assert _check(channel, "tiny") == SERVING
        assert threading.active_count() - before < 100
        for one in watches:
            one.cancel()
