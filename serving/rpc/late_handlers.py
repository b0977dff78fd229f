"""The handlers of services that are imported while the server listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from serving.common.errors import still_starting
from serving.rpc.gate import rejection


class LateHandlers(grpc.GenericRpcHandler):
    """Answers UNAVAILABLE until `open`, then with the services that were added.

    A server of gRPC takes no services after its start. This is one handler for all of them, and
    takes the place of the server in `add_..._to_server(servicer, server)`.
    """

    def __init__(self) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._is_open = False

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Does nothing: the generic handlers have the same methods."""

    def open(self) -> None:
        """Lets the services answer. Call it once all of them are added."""
        self._is_open = True

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if not self._is_open:
            return rejection(still_starting(), handler_call_details, None)
        handlers = (service.service(handler_call_details) for service in self._handlers)
        return next((handler for handler in handlers if handler is not None), None)
