"""Health follows the versions, for callers that ask and for callers that watch."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
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


def _check(channel: grpc.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5.0).status


def test_not_serving_until_a_version_is_available(
    tmp_path: Path, twofold: Path, start_server: StartServer
) -> None:
    base_path = tmp_path / "tiny"
    base_path.mkdir()
    _, address = start_server(base_path)
    with grpc.insecure_channel(address) as channel:
        assert [_check(channel, name) for name in ("", "tiny")] == [NOT_SERVING, NOT_SERVING]
        install(twofold, base_path, 1)
        wait_until(lambda: _check(channel, "") == SERVING)
        assert _check(channel, "tiny") == SERVING


def test_a_new_model_that_does_not_load_takes_no_other_out_of_rotation() -> None:
    health = Health()

    def statuses(**available: bool) -> list[int]:
        health.report(available)
        return [health._server_status[name] for name in ("", *available)]

    assert statuses(a=True, b=False) == [NOT_SERVING, SERVING, NOT_SERVING]
    assert statuses(a=True, b=True) == [SERVING] * 3
    assert statuses(a=True, b=True, c=False) == [SERVING, SERVING, SERVING, NOT_SERVING]
    assert statuses(a=True, b=False) == [NOT_SERVING, SERVING, NOT_SERVING]
    assert statuses(a=True, c=True) == [SERVING] * 3


def test_an_unknown_name_is_not_found(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(base_path)
    with grpc.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            _check(channel, "ctr")
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND
        assert raised.value.details() == "No model is named 'ctr'."


def test_without_it_only_health_is_not_answered(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(base_path, enable_grpc_healthcheck_service=False)
    with grpc.insecure_channel(address) as channel:
        assert send(channel, predict()).outputs
        with pytest.raises(grpc.RpcError) as raised:
            _check(channel, "")
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_list_has_every_model(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(base_path)
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        statuses = stub.List(health_pb2.HealthListRequest(), timeout=5.0).statuses
        assert {name: answer.status for name, answer in statuses.items()} == {
            "": SERVING,
            "tiny": SERVING,
        }


def test_watches_hear_of_each_change_once_and_do_not_hold_up_the_drain(
    tmp_path: Path, twofold: Path, start_server: StartServer
) -> None:
    base_path = tmp_path / "tiny"
    base_path.mkdir()
    server, address = start_server(base_path, grace_seconds=20.0)
    heard: queue.Queue[int] = queue.Queue()

    def watch(channel: grpc.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        for answer in stub.Watch(health_pb2.HealthCheckRequest(service="tiny")):
            heard.put(answer.status)

    with grpc.insecure_channel(address) as channel:
        watcher = threading.Thread(target=watch, args=(channel,))
        watcher.start()
        assert heard.get(timeout=5.0) == NOT_SERVING
        install(twofold, base_path, 1)
        assert heard.get(timeout=10.0) == SERVING
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 10.0
        watcher.join(timeout=5.0)
        assert not watcher.is_alive()
        assert [heard.get_nowait() for _ in range(heard.qsize())] == [NOT_SERVING]


class _Watcher:
    """The context of a watch, which counts how often it is asked whether it goes on."""

    def __init__(self, health: Health) -> None:
        self.asked, self._goes_on = 0, True
        self._end: Callable[[], object] = lambda: None
        request = health_pb2.HealthCheckRequest(service="")
        self._heard = threading.Thread(
            target=lambda: list(health.Watch(request, self)), daemon=True
        )
        self._heard.start()

    def add_callback(self, callback: Callable[[], object]) -> bool:
        self._end = callback
        return True

    def is_active(self) -> bool:
        self.asked += 1
        return self._goes_on

    def end(self) -> None:
        self._goes_on = False
        self._end()
        self._heard.join(5.0)
        assert not self._heard.is_alive()


def test_the_end_of_a_watch_wakes_no_other() -> None:
    """A client with a thousand watches that goes would wake each of them a thousand times."""
    health = Health()
    watchers = [_Watcher(health) for _ in range(3)]
    wait_until(lambda: all(one.asked == 2 for one in watchers))  # told, and waits for the next
    watchers[0].end()
    time.sleep(0.2)
    assert [one.asked for one in watchers] == [3, 2, 2]
    health.report({"tiny": True})
    wait_until(lambda: all(one.asked == 4 for one in watchers[1:]))
    for one in watchers[1:]:
        one.end()
    assert not health._watches


def test_watches_that_come_and_go_hold_up_nobody(
    base_path: Path, start_server: StartServer
) -> None:
    _, address = start_server(base_path)
    asked = health_pb2.HealthCheckRequest(service="tiny")

    def come_and_go() -> None:
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            for _ in range(40):
                watch = health_pb2_grpc.HealthStub(channel).Watch(asked, timeout=10.0)
                next(watch)
                watch.cancel()

    watchers = [threading.Thread(target=come_and_go) for _ in range(4)]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join(timeout=20.0)
        assert not watcher.is_alive()
    with grpc.insecure_channel(address) as channel:
        assert _check(channel, "tiny") == SERVING
    before = {thread for thread in threading.enumerate() if thread.name.startswith("health-watch")}
    assert len(before) < 40, "the threads of watches that ended are used again"
