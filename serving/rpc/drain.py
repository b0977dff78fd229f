"""What happens to every call before its method sees it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from grpc_health.v1 import health

from serving.common.errors import ServingError, shutting_down, truncated
from serving.common.request_trace import RequestTrace
from serving.inference.concurrency import answered_promptly
from serving.rpc.servicers import trace_of

# Has the observers see a call that is answered with an error: `InferenceService.reject`.
Refuse = Callable[[RequestTrace, ServingError], object]


class Refusal(grpc.ServerInterceptor):
    """Answers UNAVAILABLE once switched on, which callers may try elsewhere; health goes on.

    A gRPC server that is being stopped cancels what still arrives, and CANCELLED is not tried
    again: so it refuses first. What had arrived before runs to its end.

    Args:
        refuse: Told of each call that is refused.
    """

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
        self.is_on = False
        self.is_free = threading.Event()  # to answer; else what is refused waits
        self.is_free.set()
        self.ends: list[Callable[[], object]] = []  # of calls that may never end alone

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Who is refused hears of it at the end of the block.

        So whoever calls again as soon as he is answered has nothing on its way while the
        connections are told to end, and then knows it.
        """
        self.is_free.clear()
        try:
            yield
        finally:
            self.is_free.set()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        is_health = handler_call_details.method.startswith(f"/{health.SERVICE_NAME}/")
        if self.is_on and not is_health:
            return refused(shutting_down(), handler_call_details, self._refuse_when_free)
        return continuation(handler_call_details)

    def _refuse_when_free(self, trace: RequestTrace, error: ServingError) -> None:
        self.is_free.wait()
        self._refuse(trace, error)


def refused(error: ServingError, details: grpc.HandlerCallDetails, refuse: Refuse) -> Any:
    """What answers a call with an error at once, whatever its method is.

    As one of a stream it is answered before its message comes, which it may never do.

    Args:
        error: The answer.
        details: The call's.
        refuse: Told of it before it is answered.
    """
    api = truncated(details.method.rpartition("/")[2])

    @answered_promptly
    def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> None:
        refuse(trace_of(api, context), error)
        context.abort(error.code, str(error))

    return grpc.stream_unary_rpc_method_handler(answer)
