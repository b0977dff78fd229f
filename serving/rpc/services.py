"""The services of the gRPC server."""

from __future__ import annotations

from typing import Any

from tensorflow_serving.apis import (
    model_service_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from serving.common.rpc_names import HEALTH_SERVICE
from serving.config.server_config import ServerConfig
from serving.inference.service import InferenceService
from serving.observability.metrics import ServerMetrics
from serving.protos import scoring_pb2, scoring_pb2_grpc
from serving.rpc.reflection import add_reflection
from serving.rpc.scoring_service import ScoringService
from serving.rpc.servicers import ModelService, PredictionService

_SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    scoring_pb2.DESCRIPTOR.services_by_name["ScoringService"].full_name,
)


def add_services(
    server: Any, config: ServerConfig, service: InferenceService, metrics: ServerMetrics | None
) -> None:
    """Adds all services but health to a server, or to what takes its place."""
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(service), server
    )
    counter_value = None if metrics is None else metrics.counter_value
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(service, counter_value), server
    )
    scoring_pb2_grpc.add_ScoringServiceServicer_to_server(ScoringService(service), server)
    health = [HEALTH_SERVICE] if config.enable_grpc_healthcheck_service else []
    add_reflection(server, [*_SERVICES, *health])
