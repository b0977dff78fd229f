"""The gRPC server: its services, its limits, and who may reach it.

It has threads. `grpc.aio` costs a batched request less, but in grpcio 1.85.1 one call whose path is
not UTF-8 ends that whole server, whoever sends it (`tests/serving/fuzz/test_headers.py`).
"""

from __future__ import annotations

from concurrent import futures
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from tensorflow_serving.apis import (
    model_service_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from serving.common.errors import InvalidArgument, Unavailable
from serving.config.files import Certificates
from serving.config.server_config import ServerConfig
from serving.inference.concurrency import THREADS
from serving.inference.service import InferenceService
from serving.observability.metrics import Metrics
from serving.protos import scoring_pb2, scoring_pb2_grpc
from serving.rpc.drain import Refusal
from serving.rpc.health import Health
from serving.rpc.message_reader import Readable
from serving.rpc.reflection import add_reflection
from serving.rpc.scoring_service import ScoringService
from serving.rpc.security import Access, Authentication, credentials
from serving.rpc.servicers import ModelService, PredictionService

_HANDSHAKE_MS = 10_000  # connections that say nothing do not stay
_PING_MS = 5_000  # how often a client may ask whether the connection still lives
_KEEPALIVE_MS = 60_000  # how often a client is asked: one that vanished holds no thread for ever
# Calls that have come and that Python has not seen: beyond the first number some are refused by
# gRPC itself, with a bare CANCELLED, and beyond the second all. Its own are 1,000 and 3,000.
_PENDING, _MOST_PENDING = 10_000, 20_000
_SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    scoring_pb2.DESCRIPTOR.services_by_name["ScoringService"].full_name,
)


def make_grpc_server(
    config: ServerConfig,
    service: InferenceService,
    health_service: Health,
    refusal: Refusal,
    access: Access,
    metrics: Metrics | None,
) -> grpc.Server:
    """A server with all services, which listens nowhere yet."""
    readable = Readable(service.reject)
    server = grpc.server(
        futures.ThreadPoolExecutor(THREADS, "rpc"),
        interceptors=[
            refusal,
            *([] if access.is_free else [Authentication(access, service.reject)]),
            readable,
        ],
        options=_options(config),
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(service), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(service, None if metrics is None else metrics.counted),
        server,
    )
    scoring_pb2_grpc.add_ScoringServiceServicer_to_server(ScoringService(service), server)
    services = list(_SERVICES)
    if config.enable_grpc_healthcheck_service:
        health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
        services.append(health.SERVICE_NAME)
    refusal.ends += [readable.end_silent, add_reflection(server, services)]
    return server


def listen(
    server: grpc.Server, config: ServerConfig, port: int, certificates: Certificates | None
) -> int:
    """Listens on a port, and on the Unix socket where one is named; returns the port.

    Raises:
        Unavailable: One of them cannot be listened on.
    """
    address = config.address_of(port)
    try:
        if certificates is None:
            found = server.add_insecure_port(address)
        else:
            found = server.add_secure_port(address, credentials(certificates))
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
                f"Cannot listen on the socket {config.grpc_socket_path}: its folder is not there "
                "or may not be written to."
            ) from error
    return found


def _options(config: ServerConfig) -> list[tuple[str, Any]]:
    options: dict[str, Any] = {
        "grpc.max_receive_message_length": config.max_message_bytes,
        "grpc.max_send_message_length": config.max_message_bytes,
        "grpc.so_reuseport": 0,  # a port that is in use is an error
        "grpc.server_handshake_timeout_ms": _HANDSHAKE_MS,
        "grpc.keepalive_time_ms": _KEEPALIVE_MS,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.min_ping_interval_without_data_ms": _PING_MS,
        "grpc.server.max_pending_requests": _PENDING,
        "grpc.server.max_pending_requests_hard_limit": _MOST_PENDING,
    }
    for argument in filter(None, config.grpc_channel_arguments.split(",")):
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidArgument(
                "`grpc_channel_arguments` must be KEY=VALUE,... Received: "
                f"{config.grpc_channel_arguments!r}"
            )
        # In place of ours: of two values gRPC takes the first.
        options[key] = int(value) if value.lstrip("-").isdecimal() else value
    return list(options.items())
