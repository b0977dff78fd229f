"""Answers to messages that are not valid protobuf."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from serving.common.errors import Internal, truncated
from serving.rpc.gate import Report
from serving.rpc.traces import trace_of


class MalformedRequests(grpc.ServerInterceptor):
    """Answers INTERNAL to a message that is not valid protobuf, as TensorFlow Serving does.

    gRPC itself would log a traceback for each, report none of them to the observers, and never
    forget a malformed stream: a server that got one would not end.

    Args:
        report: Called for each such call.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._handlers: dict[str, Any] = {}  # by method, for methods that there are

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        method = handler_call_details.method
        guarded = self._handlers.get(method)
        if guarded is not None:
            return guarded
        handler = continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        reject = functools.partial(self._reject, method)
        self._handlers[method] = guarded = with_checked_requests(handler, reject)
        return guarded

    def _reject(
        self, method: str, context: grpc.ServicerContext, malformed: _Malformed
    ) -> NoReturn:
        error = Internal(f"Malformed request: {malformed.reason}")
        self._report(trace_of(method, context), error)
        context.abort(error.code, truncated(str(error)))
        raise error  # `abort` has raised


class _Malformed:
    """A message that cannot be parsed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def with_checked_requests(
    handler: Any, reject: Callable[[grpc.ServicerContext, _Malformed], NoReturn]
) -> Any:
    """Returns a handler whose deserializer never raises; its method rejects in its place."""
    parse = handler.request_deserializer

    def deserialize(content: bytes) -> Any:
        try:
            return parse(content)
        except DecodeError as error:
            return _Malformed(str(error))

    def checked(request: Any, context: grpc.ServicerContext) -> Any:
        if isinstance(request, _Malformed):
            reject(context, request)
        return request

    def checked_stream(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        return (checked(request, context) for request in requests)

    kind = f"{_WORDS[handler.request_streaming]}_{_WORDS[handler.response_streaming]}"
    method = getattr(handler, kind)
    check = checked_stream if handler.request_streaming else checked

    @functools.wraps(method)  # with the mark of a method that holds no thread
    def answer(request: Any, context: grpc.ServicerContext, *arguments: Any) -> Any:
        return method(check(request, context), context, *arguments)

    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(answer, deserialize, handler.response_serializer)


_WORDS = {False: "unary", True: "stream"}
