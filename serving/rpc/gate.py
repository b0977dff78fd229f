"""Rejection of calls before their messages are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc

from serving.common.errors import ServingError, truncated
from serving.common.headers import asks_low_priority
from serving.common.request_trace import RequestTrace
from serving.common.rpc_names import HEALTH_SERVICE, PREDICTION_SERVICE, SCORING_SERVICE
from serving.inference.admission import Admission
from serving.rpc.traces import pushback, trace_of

_SCORING = (f"/{PREDICTION_SERVICE}/", f"/{SCORING_SERVICE}/")
_METADATA = "/GetModelMetadata"  # computes nothing

# Raises the error that a call is rejected with.
Check = Callable[[grpc.HandlerCallDetails], object]
# Reports a rejected call to the observers: `InferenceService.reject`.
Report = Callable[[RequestTrace, ServingError], object]


class Gate(grpc.ServerInterceptor):
    """Rejects calls. Health checks pass, as probes have no token and must learn of a drain.

    Args:
        checks: Called for each other call, in this order.
        report: Called for each rejected call.
    """

    def __init__(self, checks: Sequence[Check], report: Report) -> None:
        self._checks = checks
        self._report = report

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        if not handler_call_details.method.startswith(f"/{HEALTH_SERVICE}/"):
            try:
                for check in self._checks:
                    check(handler_call_details)
            except ServingError as error:
                return rejection(error, handler_call_details, self._report)
        return continuation(handler_call_details)


def require_room(admission: Admission, details: grpc.HandlerCallDetails) -> None:
    """Raises if a request for scores would be answered too late."""
    if details.method.startswith(_SCORING) and not details.method.endswith(_METADATA):
        admission.require_room_without_deadline(asks_low_priority(details.invocation_metadata))


class _SameThread(futures.ThreadPoolExecutor):
    """Calls functions in the thread that submits them, which halves the cost of a rejection."""

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> futures.Future[Any]:
        function(*args, **kwargs)
        return _DONE


_SAME_THREAD = _SameThread(1)
_DONE = futures.Future[Any]()
_DONE.set_result(None)


def rejection(error: ServingError, details: grpc.HandlerCallDetails, report: Report | None) -> Any:
    """Returns a handler that answers any call with an error, without reading its message.

    Args:
        error: The answer.
        details: The call.
        report: Called before the answer; must not wait.
    """

    def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> None:
        trace = trace_of(details.method, context, pushback(error))
        if report is not None:
            report(trace, error)
        context.abort(error.code, truncated(str(error)))

    vars(answer)["experimental_thread_pool"] = (
        _SAME_THREAD  # gRPC then runs it in the accepting thread
    )
    return grpc.stream_unary_rpc_method_handler(answer)
