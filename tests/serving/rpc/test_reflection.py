"""Reflection: what it tells, and what garbage does to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.serving.conftest import StartServer

SERVICES = ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"]


def _ask(channel: grpc.Channel, service: str, **asked: str) -> Any:
    """The answer of a service to the bytes of a request, which both versions write alike."""
    request = reflection_pb2.ServerReflectionRequest(**asked).SerializeToString()
    stream = channel.stream_stream(f"/{service}/ServerReflectionInfo")
    (answer,) = stream(iter([request]), timeout=10.0)
    return reflection_pb2.ServerReflectionResponse.FromString(answer)


@pytest.mark.parametrize("service", SERVICES)
def test_the_services_are_listed_and_described(shared_channel: grpc.Channel, service: str) -> None:
    answer = _ask(shared_channel, service, list_services="")
    names = {one.name for one in answer.list_services_response.service}
    expected = {"tensorflow.serving.PredictionService", "recsys_attn.serving.ScoringService"}
    assert names >= expected | set(SERVICES)
    for name in names:
        found = _ask(shared_channel, service, file_containing_symbol=name)
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(one)
            for one in found.file_descriptor_response.file_descriptor_proto
        ]
        described = [f"{file.package}.{one.name}" for file in files for one in file.service]
        assert name in described


@pytest.mark.parametrize("service", SERVICES)
def test_garbage_is_answered_and_does_not_hold_up_the_end(
    base_path: Path, start_server: StartServer, service: str
) -> None:
    server, address = start_server(base_path, grace_seconds=20.0)
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream(f"/{service}/ServerReflectionInfo")
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
