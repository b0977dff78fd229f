"""The start and the end of a server, in this process and in its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.client import Client
from serving.common.errors import ResourceExhausted, ServingError, Unavailable
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from tests.serving import stubs
from tests.serving.conftest import StartServer

ROOT = Path(__file__).parents[3]
WAIT = {"seconds": np.float32([2.0])}
COMMAND = "from serving.cli import serve; serve()"


@pytest.fixture
def process(base_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command `serve` on a free port, once it listens, and its address."""
    arguments = ["--model-base-path", str(base_path), "--port", "0", "--grace-seconds", "20"]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        assert running.stdout is not None
        address = next(
            match[1]
            for line in running.stdout
            if (match := re.search(r"Listening on (\S+) ", line)) is not None
        )
        yield running, address
        running.kill()


def _call_until(client: Client, results: list[object]) -> None:
    while not results:
        client.predict_rows([{}])


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)],
    ids=lambda n: n.name,
)
def test_signal_lets_running_requests_finish(
    process: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    running, address = process
    results = []

    with (
        Client(address, timeout=20.0) as slow,
        Client(address, timeout=20.0) as client,
        grpc.insecure_channel(address) as channel,
    ):
        for connected in (slow, client):
            connected.predict_rows([{}])
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        caller = threading.Thread(
            target=lambda: results.append(slow.predict(WAIT, signature_name="wait"))
        )
        caller.start()
        time.sleep(0.5)
        running.send_signal(number)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(Unavailable):
            _call_until(client, results)
        assert not results, "new requests are rejected while an old one runs"
        caller.join()
    assert len(results) == 1
    assert running.wait(timeout=20.0) == 0


def test_grace_ends_a_longer_request(base_path: Path, start_server: StartServer) -> None:
    server, address = start_server(base_path, grace_seconds=0.1)
    failures = []

    def call() -> None:
        with Client(address, model="tiny", timeout=20.0) as client:
            try:
                client.predict(WAIT, signature_name="wait")
            except ServingError as error:
                failures.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    time.sleep(0.5)
    server.stop()
    caller.join()
    assert len(failures) == 1


def test_taken_port_is_one_clear_error(base_path: Path, shared_address: str) -> None:
    port = int(shared_address.rpartition(":")[2])
    with pytest.raises(Unavailable, match=f"Cannot listen on 127.0.0.1:{port}"):
        create_server(ServerConfig(str(base_path), port=port))


def test_messages_over_the_limit_are_rejected(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(base_path, max_message_bytes=1000)
    with Client(address, model="tiny") as client, pytest.raises(ResourceExhausted):
        client.predict({"pair": np.zeros((1000, 2), np.float32)}, signature_name="pair")


def test_requests_without_a_deadline_wait_for_their_batch(
    base_path: Path, tmp_path: Path, start_server: StartServer
) -> None:
    parameters = tmp_path / "batching.txt"
    parameters.write_text("num_batch_threads { value: 1 }")
    _, address = start_server(
        base_path, enable_batching=True, batching_parameters_file=str(parameters)
    )
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        inputs = {"seconds": np.float32([0.3])}
        request = stubs.predict(inputs=inputs, signature_name="wait")
        answers = [stub.Predict.future(request) for _ in range(3)]
        assert ["turns" in answer.result().outputs for answer in answers] == 3 * [True]
