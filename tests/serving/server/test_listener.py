"""The ports answer before TensorFlow is imported; the import waits for a line of the test."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.common.errors import NotFound
from serving.config.server_config import ServerConfig
from serving.rest.http_server import bound
from serving.server.server import create_server
from tests.serving.commands import ROOT, free_port
from tests.serving.rest.conftest import ask_port
from tests.serving.stubs import predict

HELD = """
import sys
from serving.server import process

imports = process.import_tensorflow_quietly

def held():
    print("tensorflow" in sys.modules, flush=True)
    sys.stdin.readline()
    imports()

process.import_tensorflow_quietly = held
from serving.cli import serve
serve()
"""
WORDS = "The server is still starting. Try again, or wait until its health is SERVING."
LOADING = "Model 'tiny' is still loading version 5. Try again, or wait until its health is SERVING."
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Starting(NamedTuple):
    """A server that has not imported TensorFlow, and its ports."""

    process: subprocess.Popen[str]
    address: str
    rest: int

    def import_tensorflow(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def starting(base_path: Path) -> Iterator[Starting]:
    ports = free_port(), free_port()
    arguments = [f"--port={ports[0]}", f"--rest-api-port={ports[1]}"]
    with subprocess.Popen(
        [sys.executable, "-c", HELD, f"--model-base-path={base_path}", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "False\n", "TensorFlow is imported already"
        yield Starting(process, f"127.0.0.1:{ports[0]}", ports[1])
        process.kill()


@pytest.fixture
def channel(starting: Starting) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(starting.address) as channel:
        yield channel


def _watch(channel: grpc.Channel, service: str) -> queue.Queue[int | None]:
    """The statuses of a service as they come; None is its regular end."""
    found: queue.Queue[int | None] = queue.Queue()
    request = health_pb2.HealthCheckRequest(service=service)
    calls = health_pb2_grpc.HealthStub(channel).Watch(request)

    def read() -> None:
        with contextlib.suppress(grpc.RpcError):  # such as a closed channel
            for answer in calls:
                found.put(answer.status)
            found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def _failures(channel: grpc.Channel) -> set[tuple[str, str]]:
    """Sends requests until one is answered, and returns the errors of those before."""
    found = set()
    predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    while True:
        try:
            predictions.Predict(predict(), timeout=60.0)
        except grpc.RpcError as error:
            found.add((error.code().name, error.details()))
            time.sleep(0.005)
        else:
            return found


def test_one_connection_sees_starting_then_serving(
    starting: Starting, channel: grpc.Channel
) -> None:
    states: list[grpc.ChannelConnectivity] = []
    channel.subscribe(states.append)
    check = health_pb2_grpc.HealthStub(channel).Check
    for name in ("", "tiny", "other"):
        request = health_pb2.HealthCheckRequest(service=name)
        assert check(request, timeout=20.0).status == NOT_SERVING
    watched = _watch(channel, "tiny")
    assert watched.get(timeout=20.0) == NOT_SERVING
    for method in ("/tensorflow.serving.PredictionService/Predict", "/no.Service/Method"):
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(method)(b"not a message", timeout=20.0)
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
        assert raised.value.details() == WORDS
    assert ask_port(starting.rest, "GET", "/healthz") == (200, "ok\n")
    assert ask_port(starting.rest, "GET", "/readyz") == (503, "not ready: starting\n")
    assert ask_port(starting.rest, "GET", "/v1/models/tiny") == (503, {"error": WORDS})
    starting.import_tensorflow()
    seen = {("UNAVAILABLE", WORDS), ("UNAVAILABLE", LOADING)}
    assert _failures(channel) <= seen, "no connection was refused or dropped"
    assert watched.get(timeout=20.0) == SERVING
    assert check(health_pb2.HealthCheckRequest(), timeout=20.0).status == SERVING
    with pytest.raises(grpc.RpcError) as raised:
        check(health_pb2.HealthCheckRequest(service="other"), timeout=20.0)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND
    assert ask_port(starting.rest, "GET", "/readyz") == (200, "ready\n")
    assert states[-1] == grpc.ChannelConnectivity.READY
    assert grpc.ChannelConnectivity.TRANSIENT_FAILURE not in states


def test_a_signal_before_the_import_ends_watches(starting: Starting, channel: grpc.Channel) -> None:
    watched = _watch(channel, "")
    assert watched.get(timeout=20.0) == NOT_SERVING
    starting.process.terminate()
    assert watched.get(timeout=20.0) is None
    assert starting.process.wait(20) == 0


def test_invalid_configuration_frees_the_ports(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    config = ServerConfig(
        model_config_file=str(tmp_path / "none"), port=ports[0], rest_api_port=ports[1]
    )
    with pytest.raises(NotFound, match="Cannot read"):
        create_server(config)
    for port in ports:
        bound("127.0.0.1", port, "port").close()
