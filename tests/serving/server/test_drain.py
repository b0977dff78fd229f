"""Servers that end under load, each a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.client import Client
from serving.common.errors import ServingError
from tests.serving.commands import Command, free_port
from tests.serving.conftest import wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict

BODY = json.dumps({"signature_name": "double", "instances": [2.5]})
PREDICT = "/v1/models/tiny:predict"
CLIENTS = 3  # of each kind


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, twofold: Path
) -> Iterator[dict[str, Command]]:
    """Three servers, which start at the same time: without batching, with it, and a third."""
    folder = tmp_path_factory.mktemp("drain")
    install(twofold, folder / "tiny", 5)
    ports = [free_port(), free_port()]
    base_path = folder / "tiny"
    servers = {
        "alone": Command(folder / "0", model_base_path=base_path, rest_api_port=ports[0]),
        "batched": Command(
            folder / "1",
            model_base_path=base_path,
            rest_api_port=ports[1],
            enable_batching=True,
            access_log=True,
        ),
        "third": Command(folder / "2", model_base_path=base_path, access_log=True),
    }
    yield {name: server.listens() for name, server in servers.items()}
    for server in servers.values():
        server.end()


class Load:
    """Clients without retries, which count their answers until they are stopped."""

    def __init__(self, server: Command) -> None:
        self.answers: Counter[str] = Counter()
        self._ended = threading.Event()
        self._server = server
        self._threads = [
            threading.Thread(target=client)
            for client in (self._grpc, self._rest)
            for _ in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> Counter[str]:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        return self.answers

    def _grpc(self) -> None:
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self._server.address, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self._ended.wait(0.002):
                try:
                    stub.Predict(predict(), timeout=20.0)
                    self.answers["gRPC OK"] += 1
                except grpc.RpcError as error:
                    self.answers[f"gRPC {error.code().name}"] += 1

    def _rest(self) -> None:
        while not self._ended.wait(0.002):
            self.answers[f"REST {_ask(self._server, 'POST', PREDICT, BODY)}"] += 1


def test_access_log_is_json_on_standard_error(servers: dict[str, Command]) -> None:
    server = servers["third"]
    with Client(server.address, model="tiny", timeout=20) as client:
        client.predict_rows([{}, {}], request_id="r1")
        with pytest.raises(ServingError):
            client.predict({}, signature_name="none", request_id="r2")
    lines: dict[str, dict[str, Any]] = {}

    def has_both() -> bool:
        with server.log.open() as log:
            lines.update((line["request_id"], line) for line in _records(log))
        return len(lines) == 2

    wait_until(has_both)
    assert [lines[name]["code"] for name in ("r1", "r2")] == ["OK", "FAILED_PRECONDITION"]
    assert (lines["r1"]["model"], lines["r1"]["version"], lines["r1"]["rows"]) == ("tiny", 5, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "number"), [("third", signal.SIGKILL), ("alone", signal.SIGTERM)])
def test_client_with_retries_loses_no_request(
    servers: dict[str, Command], name: str, number: signal.Signals
) -> None:
    ending, stays = servers[name], servers["batched"]
    failures, answers = [], []
    is_over = threading.Event()

    def call() -> None:
        while not is_over.is_set():
            try:
                answers.append(client.predict_rows([{"price": 1.5}])["click"].tolist())
            except ServingError as error:
                failures.append(error)

    with Client([ending.address, stays.address], model="tiny", timeout=20) as client:
        client.metadata()
        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        wait_until(lambda: len(answers) > 30)
        ending.process.send_signal(number)
        ending.process.wait(20)
        count = len(answers)
        wait_until(lambda: len(answers) > count + 30)
        is_over.set()
        for caller in callers:
            caller.join()
    assert failures == []
    assert answers.count(answers[0]) == len(answers)


def test_sigterm_under_load_loses_no_accepted_request(servers: dict[str, Command]) -> None:
    server = servers["batched"]
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        assert _ask(server, "GET", "/readyz") == "200"
        before = server.log.stat().st_size
        load = Load(server)
        wait_until(lambda: min(load.answers["gRPC OK"], load.answers["REST 200"]) > 20)
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert server.process.wait(20) == 0
    wait_until(lambda: load.answers["REST refused"] > 0)
    answers = load.stop()
    assert answers["gRPC UNAVAILABLE"] > 0
    assert answers.keys() <= {
        "gRPC OK", "gRPC UNAVAILABLE", "gRPC CANCELLED", "REST 200", "REST 503", "REST refused",
    }  # fmt: skip
    with server.log.open() as log:
        log.seek(before)
        served = Counter((line["entrypoint"], line["code"]) for line in _records(log))
    assert served["GRPC", "OK"] == answers["gRPC OK"]
    assert served["REST", "OK"] == answers["REST 200"]


def _records(log: Iterable[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in log if line.startswith("{"))


def _ask(server: Command, method: str, path: str, body: str | None = None) -> str:
    """Returns the status of a request on a connection of its own; `refused` without one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
    with contextlib.closing(connection):
        try:
            connection.connect()
        except ConnectionError:
            return "refused"
        try:
            connection.request(method, path, body)
            return str(connection.getresponse().status)
        except ConnectionError:  # accepted by the system, and closed before the server saw it
            return "refused"
