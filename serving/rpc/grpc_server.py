"""The gRPC server: its limits and its addresses. It imports no TensorFlow.

It has threads. `grpc.aio` costs a batched request less, but in grpcio 1.85.1 a single call whose
path is not UTF-8 ends that whole server.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent import futures
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc

from serving.common.errors import InvalidArgument, Unavailable, still_starting
from serving.config.files import Certificates
from serving.config.server_config import ServerConfig
from serving.rpc.gate import rejection
from serving.rpc.health import Health
from serving.rpc.security import credentials

# Threads beside those of the requests that the concurrency limit lets in: they reject the others,
# and answer health checks and calls about models. gRPC starts threads as they are needed.
_SPARE_THREADS = 64
_KEEPALIVE_MS = 60_000  # time between two pings of a client, which find dead connections
_PING_MS = 5_000  # shortest time between two pings of a client's own


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


def make_grpc_server(
    config: ServerConfig,
    health: Health,
    handler: grpc.GenericRpcHandler,
    interceptors: Sequence[grpc.ServerInterceptor],
) -> grpc.Server:
    """Returns a server that does not listen yet.

    Args:
        config: Its limits.
        health: The health service, if the config enables it.
        handler: Answers all other calls.
        interceptors: Called before them, in this order.
    """
    threads = config.most_requests + _SPARE_THREADS
    server = grpc.server(
        futures.ThreadPoolExecutor(threads, "rpc"),
        interceptors=interceptors,
        options=_options(config),
    )
    server.add_generic_rpc_handlers((handler,))
    if config.enable_grpc_healthcheck_service:
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
    return server


def listen(
    server: grpc.Server, config: ServerConfig, port: int, certificates: Certificates | None
) -> int:
    """Binds the port, and the Unix socket if the config names one. Returns the port.

    Raises:
        Unavailable: One of them cannot be bound.
    """
    address = config.address_of(port)
    try:
        if certificates is None:
            bound_port = server.add_insecure_port(address)
        else:
            bound_port = server.add_secure_port(address, credentials(certificates))
    except RuntimeError as error:
        raise Unavailable(
            f"Cannot listen on {address}: the port is taken or the host is not this machine's. "
            "Choose another port or host."
        ) from error
    if config.grpc_socket_path:
        try:
            server.add_insecure_port(f"unix:{config.grpc_socket_path}")
        except RuntimeError as error:
            raise Unavailable(
                f"Cannot listen on the socket {config.grpc_socket_path}: its folder does not exist "
                "or may not be written to."
            ) from error
    return bound_port


def _options(config: ServerConfig) -> list[tuple[str, Any]]:
    options: dict[str, Any] = {
        "grpc.max_receive_message_length": config.max_message_bytes,
        "grpc.max_send_message_length": config.max_message_bytes,
        "grpc.so_reuseport": 0,  # a port that is in use is an error
        "grpc.keepalive_time_ms": _KEEPALIVE_MS,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.min_ping_interval_without_data_ms": _PING_MS,
    }
    for argument in filter(None, config.grpc_channel_arguments.split(",")):
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidArgument(
                "`grpc_channel_arguments` must be KEY=VALUE,... Received: "
                f"{config.grpc_channel_arguments!r}"
            )
        # Replaces the value above: of two values gRPC takes the first.
        options[key] = int(value) if value.lstrip("-").isdecimal() else value
    return list(options.items())
