"""What happens to every call before its method sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health

from serving.errors import shutting_down


class Refusal(grpc.ServerInterceptor):
    """Answers UNAVAILABLE once switched on, which callers may try elsewhere; health goes on.

    A gRPC server that is being stopped cancels what still arrives, and CANCELLED is not tried
    again: so it refuses first. What had arrived before runs to its end.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._handler = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        is_health = handler_call_details.method.startswith(f"/{health.SERVICE_NAME}/")
        if self.is_on and not is_health:
            return self._handler
        return continuation(handler_call_details)


def _refuse(request: bytes, context: grpc.ServicerContext) -> None:
    error = shutting_down()
    context.abort(error.code, str(error))
