"""Bytes that are no message, answered before gRPC sees that they are none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import grpc

_UNREADABLE = object()


class Readable(grpc.ServerInterceptor):
    """Answers INTERNAL to bytes that are no message, as gRPC does, and forgets the call.

    gRPC keeps every such call for good, 15 kB each, and logs where it noticed. It must be the last
    of a server's interceptors.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Any] = {}  # by method; what two threads make is the same

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        found = self._handlers.get(handler_call_details.method)
        if found is None:
            found = continuation(handler_call_details)
            if found is not None:  # else it is no method, and its name may be any
                found = self._handlers[handler_call_details.method] = _readable(found)
        return found


def _readable(handler: Any) -> Any:
    if handler.request_streaming:
        return handler
    if handler.response_streaming:
        make, method = grpc.unary_stream_rpc_method_handler, handler.unary_stream
    else:
        make, method = grpc.unary_unary_rpc_method_handler, handler.unary_unary

    def read(content: bytes) -> Any:
        try:
            return handler.request_deserializer(content)
        except Exception:  # protobuf's own, which has no name in a declared dependency
            return _UNREADABLE

    @functools.wraps(method)  # and in the same threads
    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        if request is _UNREADABLE:
            context.abort(grpc.StatusCode.INTERNAL, "Exception deserializing request!")
        return method(request, context)

    return make(answer, read, handler.response_serializer)
