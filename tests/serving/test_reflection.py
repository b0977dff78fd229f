"""Reflection: what it tells, and what garbage does to it."""

from __future__ import annotations

import time
from pathlib import Path

import grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.serving.conftest import StartServer

METHOD = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def test_the_services_are_listed(shared_channel: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(shared_channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    (answer,) = stub.ServerReflectionInfo(iter([asked]), timeout=10.0)
    names = {service.name for service in answer.list_services_response.service}
    assert "tensorflow.serving.PredictionService" in names
    assert "recsys_attn.serving.ScoringService" in names


def test_garbage_is_answered_and_does_not_hold_up_the_end(
    base_path: Path, start_server: StartServer
) -> None:
    server, address = start_server(base_path, grace_seconds=20.0)
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream(METHOD)
        for content in (b"\xff", b"\x0b" * 200, b"\x0a\x02\xff\xff"):
            (answer,) = ask(iter([content]), timeout=10.0)
            error = reflection_pb2.ServerReflectionResponse.FromString(answer).error_response
            assert error.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 10.0


def test_open_streams_take_no_thread_from_the_models(
    base_path: Path, start_server: StartServer
) -> None:
    _, address = start_server(base_path, grpc_max_threads=1)
    with grpc.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        ended = time.monotonic() + 5.0

        def stalls() -> object:
            while time.monotonic() < ended:
                time.sleep(0.05)
            yield from ()

        streams = [stub.ServerReflectionInfo(stalls()) for _ in range(3)]
        status = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        answer = status(b"\x0a\x06\x0a\x04tiny", timeout=4.0)
        assert answer
        for stream in streams:
            stream.cancel()
