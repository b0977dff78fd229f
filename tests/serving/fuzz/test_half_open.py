"""Calls that begin and never go on."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from serving.inference.concurrency import THREADS
from tests.serving.conftest import StartServer
from tests.serving.fuzz.streams import PREFACE, call_of, frame
from tests.serving.stubs import predict, send, status

SETTINGS = frame(4, 0, 0, b"")
BEGIN_SECONDS = 1.0
STALLED = 30
MANY = 300  # on one connection; beyond what answers at once, and what refuses
MORE = THREADS + 200
CHECK = "/grpc.health.v1.Health/Check"
PREDICT = "/tensorflow.serving.PredictionService/Predict"


@contextlib.contextmanager
def _stalled(address: str, path: str, calls: int = 1) -> Iterator[None]:
    """A connection with calls that send no message; `BEGIN_SECONDS` later they have begun."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10.0) as connection:
        opened = b"".join(call_of(path, stream=2 * call + 1) for call in range(calls))
        connection.sendall(PREFACE + SETTINGS + opened)
        yield


def _probe(channel: grpc.Channel) -> int:
    asked = health_pb2.HealthCheckRequest(service="tiny")
    return health_pb2_grpc.HealthStub(channel).Check(asked, timeout=10.0).status


def test_probes_that_stall_keep_no_other_probe_from_its_answer(shared_address: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(_stalled(shared_address, CHECK))
        time.sleep(BEGIN_SECONDS)
        channel = stack.enter_context(grpc.insecure_channel(shared_address))
        assert _probe(channel) == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    "options",
    [{}, {"enable_batching": True}, {"max_concurrent_requests": 2}],
    ids=["alone", "in batches", "limited"],
)
def test_requests_that_stall_keep_no_other_from_its_answer(
    base_path: Path, start_server: StartServer, options: dict[str, object]
) -> None:
    _, address = start_server(base_path, **options)
    with _stalled(address, PREDICT, MANY), grpc.insecure_channel(address) as channel:
        time.sleep(BEGIN_SECONDS)
        assert send(channel, predict()).outputs
        assert send(channel, status(version=5)).model_version_status
        assert _probe(channel) == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        assert next(reflection.ServerReflectionInfo(iter([asked]), timeout=5.0))


def test_what_is_refused_and_stalls_keeps_no_probe_from_its_answer(
    base_path: Path, tmp_path: Path, start_server: StartServer
) -> None:
    (tmp_path / "tokens").write_text("one\n")
    _, address = start_server(base_path, auth_token_file=str(tmp_path / "tokens"))
    with _stalled(address, PREDICT, MANY), grpc.insecure_channel(address) as channel:
        time.sleep(BEGIN_SECONDS)
        assert _probe(channel) == health_pb2.HealthCheckResponse.SERVING


def test_more_calls_stall_than_there_are_threads(shared_address: str) -> None:
    """Of each kind: those that compute, and those that answer promptly."""
    with contextlib.ExitStack() as stack:
        for path in (PREDICT, CHECK):
            stack.enter_context(_stalled(shared_address, path, MORE))
        time.sleep(BEGIN_SECONDS)
        channel = stack.enter_context(grpc.insecure_channel(shared_address))
        assert send(channel, predict()).outputs
        assert _probe(channel) == health_pb2.HealthCheckResponse.SERVING


def test_a_call_that_ends_without_its_message_is_unimplemented(shared_address: str) -> None:
    """As gRPC's own words have it."""
    with grpc.insecure_channel(shared_address) as channel:
        for path in (PREDICT, CHECK, "/grpc.health.v1.Health/Watch"):
            answers = channel.stream_stream(path)(iter(()), timeout=10.0)
            with pytest.raises(grpc.RpcError) as raised:
                next(answers)
            assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
            assert raised.value.details() == f'"{path}" requires exactly one request message.'
