"""Messages that are no protobuf."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from serving.common.errors import Internal, truncated
from serving.rpc.drain import Report
from serving.rpc.traces import trace_of


class MalformedRequests(grpc.ServerInterceptor):
    """Answers INTERNAL to a message that is no protobuf, as TensorFlow Serving does.

    gRPC itself would log a traceback for each, report none of them to the observers, and never
    forget a malformed stream: a server that got one would not end.

    Args:
        report: Called for each such call.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        api = truncated(handler_call_details.method.rpartition("/")[2])
        return _readable(handler, functools.partial(self._reject, api))

    def _reject(self, api: str, context: grpc.ServicerContext, malformed: _Malformed) -> NoReturn:
        error = Internal(f"Malformed request: {malformed.reason}")
        self._report(trace_of(api, context), error)
        context.abort(error.code, truncated(str(error)))
        raise error  # `abort` has raised


class _Malformed:
    """A message that could not be read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _readable(handler: Any, reject: Callable[[grpc.ServicerContext, _Malformed], NoReturn]) -> Any:
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

    def each(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        return (checked(request, context) for request in requests)

    kind = f"{_WORDS[handler.request_streaming]}_{_WORDS[handler.response_streaming]}"
    method = getattr(handler, kind)
    check = each if handler.request_streaming else checked

    @functools.wraps(method)  # with the mark of a method that holds no thread
    def answer(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
        return method(check(request, context), context, *more)

    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(answer, deserialize, handler.response_serializer)


_WORDS = {False: "unary", True: "stream"}
