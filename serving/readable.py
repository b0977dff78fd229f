"""Bytes that are no message, answered before gRPC sees that they are none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import grpc

from serving.errors import Internal
from serving.interceptors import Refuse
from serving.servicers import call_named

_UNREADABLE = object()


class Readable(grpc.ServerInterceptor):
    """Answers INTERNAL to bytes that are no message, as gRPC does, and forgets the call.

    gRPC keeps every such call for good, 15 kB each, and logs where it noticed. It must be the last
    of a server's interceptors.

    Args:
        refuse: Told of each call that is answered so.
    """

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
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
                found = self._handlers[handler_call_details.method] = _readable(
                    found, handler_call_details.method.rpartition("/")[2], self._refuse
                )
        return found


def _readable(handler: Any, api: str, refuse: Refuse) -> Any:
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
            error = Internal("Exception deserializing request!")
            refuse(call_named(api, context), error)
            context.abort(error.code, str(error))
        return method(request, context)

    return make(answer, read, handler.response_serializer)
