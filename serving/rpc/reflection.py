"""The standard reflection service, by which tools such as grpcurl list and describe the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from grpc_reflection.v1alpha import reflection, reflection_pb2

_ALPHA = reflection.SERVICE_NAME
_V1 = "grpc.reflection.v1.ServerReflection"
SERVICE_NAMES = (_V1, _ALPHA)


def add_reflection(server: Any, services: Sequence[str]) -> None:
    """Adds reflection to a server, or to what takes its place, as v1 and as v1alpha.

    Current tools call v1, many of them nothing else, and grpcio-reflection has v1alpha alone. The
    messages of both have the same bytes, so one servicer answers both.

    Args:
        server: The server.
        services: Full names of the services to list, without reflection.
    """
    pool = descriptor_pool.Default()
    _describe_v1(pool)
    servicer = reflection.ReflectionServicer([*services, *SERVICE_NAMES], pool)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": handler})
            for name in SERVICE_NAMES
        ]
    )


def _describe_v1(pool: descriptor_pool.DescriptorPool) -> None:
    """Adds the description of v1 to a pool that has none: tools ask for that of every service."""
    try:
        pool.FindServiceByName(_V1)
    except KeyError:
        file = descriptor_pb2.FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(file)
        text = text_format.MessageToString(file).replace("v1alpha", "v1")
        v1 = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
        pool.AddSerializedFile(v1.SerializeToString())
