"""Servers that are ended under load, each a process: who is answered, and what the others hear."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

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
OK, REFUSED = "OK", "refused"
CALLERS = 3  # of each kind


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
        ),
        "third": Command(folder / "2", model_base_path=base_path, access_log=True),
    }
    yield {name: server.listens() for name, server in servers.items()}
    for server in servers.values():
        server.end()


class Load:
    """Callers without retries that go on until they are stopped; counts what they hear."""

    def __init__(self, server: Command) -> None:
        self.heard: Counter[str] = Counter()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(caller, server))
            for caller in (self._grpc, self._rest, self._rest_anew)
            for _ in range(CALLERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> Counter[str]:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        return self.heard

    def _run(self, caller: Callable[[Command], None], server: Command) -> None:
        while not self._ended.is_set():
            caller(server)

    def _grpc(self, server: Command) -> None:
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self._ended.is_set():
                try:
                    stub.Predict(predict(), timeout=20.0)
                    self._hear("gRPC", OK)
                except grpc.RpcError as error:
                    self._hear("gRPC", error.code().name)
                time.sleep(0.002)

    def _rest(self, server: Command) -> None:
        """Requests on one connection, as long as the server keeps it."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
            connection.connect()
        except ConnectionRefusedError:
            self._hear("REST", REFUSED)
            return
        with contextlib.closing(connection):
            while connection.sock is not None and not self._ended.is_set():
                self._ask(connection)

    def _rest_anew(self, server: Command) -> None:
        """A request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
        with contextlib.closing(connection):
            self._ask(connection)

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.request("POST", "/v1/models/tiny:predict", BODY)
            response = connection.getresponse()
            response.read()
            self._hear("REST", OK if response.status == 200 else str(response.status))
        except ConnectionRefusedError:
            self._hear("REST", REFUSED)
        except OSError as error:
            connection.close()
            self._hear("REST", type(error).__name__)
        time.sleep(0.002)

    def _hear(self, kind: str, what: str) -> None:
        self.heard[f"{kind} {what}"] += 1


def test_the_access_log_is_json_on_standard_error(servers: dict[str, Command]) -> None:
    server = servers["third"]
    with Client(server.address, model="tiny", timeout=20) as client:
        client.predict_rows([{}, {}], request_id="r1")
        with pytest.raises(ServingError):
            client.predict({}, signature_name="none", request_id="r2")
    written = [line for line in server.log.read_text().splitlines() if line.startswith("{")]
    lines = {line["request_id"]: line for line in map(json.loads, written)}
    assert [lines[name]["code"] for name in ("r1", "r2")] == ["OK", "FAILED_PRECONDITION"]
    assert (lines["r1"]["model"], lines["r1"]["version"], lines["r1"]["rows"]) == ("tiny", 5, 2)


def test_a_killed_server_fails_no_retried_call(servers: dict[str, Command]) -> None:
    killed, stays = servers["third"], servers["alone"]
    failures, answers = [], []

    def call() -> None:
        while len(answers) + len(failures) < 90:
            try:
                answers.append(client.predict_rows([{"price": 1.5}])["click"].tolist())
            except ServingError as error:
                failures.append(error)

    with Client([killed.address, stays.address], model="tiny", timeout=20) as client:
        client.metadata()
        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        wait_until(lambda: len(answers) > 30)
        killed.process.kill()
        for caller in callers:
            caller.join()
    assert failures == []
    assert answers.count(answers[0]) == len(answers)


@pytest.mark.parametrize("name", ["alone", "batched"])
def test_sigterm_under_load_loses_no_accepted_request(
    servers: dict[str, Command], name: str
) -> None:
    server = servers[name]
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        assert _ready(server) == "200"
        load = Load(server)
        wait_until(lambda: min(load.heard["gRPC OK"], load.heard["REST OK"]) > 20)
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert _ready(server) in ("503", REFUSED), "whichever it is by then"
    assert server.process.wait(20) == 0
    wait_until(lambda: load.heard["REST refused"] > 0)
    heard = load.stop()
    assert heard["gRPC UNAVAILABLE"] > 0
    assert heard.keys() <= {
        "gRPC OK", "gRPC UNAVAILABLE", "REST OK", "REST 503", "REST refused",
    }  # fmt: skip


def _ready(server: Command) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz")
            return str(connection.getresponse().status)
        except ConnectionError:
            return REFUSED
