"""Reflection, as v1 and as v1alpha, that streams of garbage do no harm to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from grpc_reflection.v1alpha import reflection, reflection_pb2

# Clients ask for v1 first, many for nothing else; its messages are those of v1alpha.
REFLECTION_SERVICES = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)
_METHOD = "ServerReflectionInfo"
_THREADS = 2


def add_reflection(server: grpc.Server, services: Sequence[str]) -> Callable[[], object]:
    """Lets clients ask a server for its services and for reflection, under both of its names.

    Returns what ends the open streams.

    Differs from `reflection.enable_server_reflection` in two things. Bytes that are no message are
    an empty one, whose answer says that it is not valid: gRPC would neither end the stream nor
    forget it, and wait for it when it is stopped. And the streams, which stay open for as long as
    a client likes, have threads of their own.
    """
    _describe_v1(descriptor_pool.Default())
    servicer = reflection.ReflectionServicer([*services, *REFLECTION_SERVICES])
    method = _InOwnThreads(servicer.ServerReflectionInfo)
    handler = grpc.stream_stream_rpc_method_handler(
        method,
        request_deserializer=_request,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(name, {_METHOD: handler})
            for name in REFLECTION_SERVICES
        ]
    )
    return method.end


def _describe_v1(pool: descriptor_pool.DescriptorPool) -> None:
    """Adds what describes v1, which grpcio-reflection does not have: clients ask for each service
    that is listed."""
    try:
        pool.FindServiceByName(REFLECTION_SERVICES[0])
    except KeyError:
        file = descriptor_pb2.FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(file)
        text = text_format.MessageToString(file).replace("v1alpha", "v1")
        changed = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
        pool.AddSerializedFile(changed.SerializeToString())


class _InOwnThreads:
    """A method that gRPC calls in threads of its own."""

    def __init__(self, method: Callable[..., Iterator[Any]]) -> None:
        self._method = method
        self.experimental_thread_pool = futures.ThreadPoolExecutor(
            _THREADS, thread_name_prefix="reflection"
        )
        self._open: dict[grpc.ServicerContext, None] = {}
        self._is_over = False

    def __call__(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        self._open[context] = None
        if not context.add_callback(lambda: self._open.pop(context, None)):  # it has ended
            del self._open[context]
        if self._is_over:  # it had waited for a thread
            context.cancel()
        return self._method(requests, context)

    def end(self) -> None:
        """Ends the calls that are open, and those that still come."""
        self._is_over = True
        for context in list(self._open):
            context.cancel()


def _request(content: bytes) -> reflection_pb2.ServerReflectionRequest:
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(content)
    except Exception:  # protobuf's own, which has no name in a declared dependency
        return reflection_pb2.ServerReflectionRequest()
