"""Reflection lists and describes the services."""

from __future__ import annotations

import grpc
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc


def test_services_are_listed_and_described(shared_channel: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(shared_channel)

    def ask(**fields: str) -> reflection_pb2.ServerReflectionResponse:
        request = reflection_pb2.ServerReflectionRequest(**fields)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10.0)
        return answer

    names = {one.name for one in ask(list_services="").list_services_response.service}
    assert names == {
        "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
        "recsys_attn.serving.ScoringService", "grpc.health.v1.Health", reflection.SERVICE_NAME,
    }  # fmt: skip
    for name in names:
        found = ask(file_containing_symbol=name).file_descriptor_response
        files = map(descriptor_pb2.FileDescriptorProto.FromString, found.file_descriptor_proto)
        assert name in [f"{file.package}.{one.name}" for file in files for one in file.service]
