"""Rejection of calls before they reach their method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from serving.common.errors import ServingError, shutting_down, truncated
from serving.common.request_trace import RequestTrace
from serving.rpc.health import SERVICE_NAME as HEALTH_SERVICE
from serving.rpc.traces import abort, trace_of

# Reports a rejected call to the observers: `InferenceService.reject`.
Report = Callable[[RequestTrace, ServingError], object]


class DrainInterceptor(grpc.ServerInterceptor):
    """Answers UNAVAILABLE while the server drains, so that clients retry elsewhere.

    Calls that were accepted before run to their end, and health checks are still answered.

    Args:
        report: Called for each rejected call.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self.is_draining = False

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        is_health = handler_call_details.method.startswith(f"/{HEALTH_SERVICE}/")
        if self.is_draining and not is_health:
            return rejection(shutting_down(), handler_call_details, self._report)
        return continuation(handler_call_details)


class _AtOnce(futures.ThreadPoolExecutor):
    """Calls in the thread that submits: a rejection costs half of one in another thread."""

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> futures.Future[Any]:
        future = futures.Future[Any]()
        future.set_result(function(*args, **kwargs))
        return future


_AT_ONCE = _AtOnce(1)


def rejection(error: ServingError, details: grpc.HandlerCallDetails, report: Report) -> Any:
    """Returns a handler that answers any call with an error, without reading its message.

    Args:
        error: The answer.
        details: The call.
        report: Called before the answer.
    """
    api = truncated(details.method.rpartition("/")[2])

    def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> None:
        report(trace_of(api, context), error)
        abort(context, error)

    vars(answer)["experimental_thread_pool"] = _AT_ONCE  # as gRPC's health service may have one
    return grpc.stream_unary_rpc_method_handler(answer)
