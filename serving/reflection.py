"""Reflection that streams of garbage do no harm to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

_METHOD = "ServerReflectionInfo"
_THREADS = 2


def add_reflection(server: grpc.Server, services: Sequence[str]) -> Callable[[], object]:
    """Lets clients ask a server for its services; returns what ends the open streams.

    Differs from `reflection.enable_server_reflection` in two things. Bytes that are no message are
    an empty one, whose answer says that it is not valid: gRPC would neither end the stream nor
    forget it, and wait for it when it is stopped. And the streams, which stay open for as long as
    a client likes, have threads of their own.
    """
    method = _InOwnThreads(reflection.ReflectionServicer(services).ServerReflectionInfo)
    handler = grpc.stream_stream_rpc_method_handler(
        method,
        request_deserializer=_request,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {_METHOD: handler})]
    )
    return method.end


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
