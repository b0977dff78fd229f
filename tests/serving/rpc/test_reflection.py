"""Reflection lists and describes the services, as v1 and as v1alpha."""

from __future__ import annotations

import re
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.protos import ROOT

VERSIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
# A request has the same bytes in both versions: field 7, `list_services`, and field 4,
# `file_containing_symbol`.
LIST = b"\x3a\x00"


def _describe(name: str) -> bytes:
    return b"\x22" + bytes([len(name)]) + name.encode()


def _answer(channel: grpc.Channel, version: str, request: bytes) -> bytes:
    call = channel.stream_stream(f"/{version}.ServerReflection/ServerReflectionInfo")
    (answer,) = call(iter([request]), timeout=10.0)
    return answer


def _response(channel: grpc.Channel, version: str) -> Any:
    """The response message of a version, made of the server's own description of it alone."""
    alpha = descriptor_pool.Default().FindMessageTypeByName(
        "grpc.reflection.v1alpha.ServerReflectionResponse"
    )
    read = message_factory.GetMessageClass(alpha).FromString
    answer = read(_answer(channel, version, _describe(f"{version}.ServerReflection")))
    pool = descriptor_pool.DescriptorPool()
    for file in answer.file_descriptor_response.file_descriptor_proto:
        pool.AddSerializedFile(file)
    method = pool.FindServiceByName(f"{version}.ServerReflection").methods[0]
    assert method.input_type.full_name == f"{version}.ServerReflectionRequest"
    assert method.client_streaming
    assert method.server_streaming
    return message_factory.GetMessageClass(method.output_type)


@pytest.mark.parametrize("version", VERSIONS)
def test_services_are_listed_and_described(shared_channel: grpc.Channel, version: str) -> None:
    response = _response(shared_channel, version)
    answer = response.FromString(_answer(shared_channel, version, LIST))
    names = {one.name for one in answer.list_services_response.service}
    assert names == {
        "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
        "recsys_attn.serving.ScoringService", "recsys_attn.serving.StateService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
    }  # fmt: skip
    for name in names:
        found = response.FromString(_answer(shared_channel, version, _describe(name)))
        files = map(
            descriptor_pb2.FileDescriptorProto.FromString,
            found.file_descriptor_response.file_descriptor_proto,
        )
        assert name in [f"{file.package}.{one.name}" for file in files for one in file.service]


def test_documented_services_are_those_of_reflection(shared_channel: grpc.Channel) -> None:
    """The table of the quickstart lists the same services."""
    page = (ROOT / "docs" / "serving" / "quickstart.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", page, re.MULTILINE)
    documented = {name: set(re.findall(r"`([A-Z]\w+)`", text)) for name, text in rows}
    answer = _response(shared_channel, VERSIONS[0]).FromString(
        _answer(shared_channel, VERSIONS[0], LIST)
    )
    listed = {one.name for one in answer.list_services_response.service}
    services = {name: methods for name, methods in documented.items() if name in listed}
    assert services.keys() == listed
    pool = descriptor_pool.Default()
    for name, methods in services.items():
        assert methods == set(pool.FindServiceByName(name).methods_by_name), name
