"""The gRPC services: TensorFlow Serving's, and this project's ScoringService."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from serving.common import errors
from serving.common.headers import DEGRADED, STATE
from serving.common.rpc_names import HEALTH_SERVICE
from serving.config.server_config import ServerConfig
from serving.encoding.events import read_push, write_added
from serving.inference.plan import Api
from serving.inference.service import (
    CLASSIFY,
    MULTI_INFERENCE,
    PREDICT,
    RANK,
    REGRESS,
    InferenceService,
)
from serving.observability.metrics import ServerMetrics
from serving.protos import scoring_pb2, scoring_pb2_grpc, state_pb2, state_pb2_grpc
from serving.rpc.reflection import add_reflection
from serving.rpc.traces import abort, trace_of

_LOGGER = logging.getLogger(__name__)
_SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    scoring_pb2.DESCRIPTOR.services_by_name["ScoringService"].full_name,
    state_pb2.DESCRIPTOR.services_by_name["StateService"].full_name,
)

Answer = TypeVar("Answer")


def add_services(
    server: Any, config: ServerConfig, service: InferenceService, metrics: ServerMetrics | None
) -> None:
    """Adds all services but health to a server, or to the object in its place."""
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(service), server
    )
    counter_value = None if metrics is None else metrics.counter_value
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(service, counter_value), server
    )
    scoring_pb2_grpc.add_ScoringServiceServicer_to_server(ScoringService(service), server)
    health = [HEALTH_SERVICE] if config.enable_grpc_healthcheck_service else []
    state_pb2_grpc.add_StateServiceServicer_to_server(StateService(service), server)
    add_reflection(server, [*_SERVICES, *health])


def rpc(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """Answers a raised error with its code and message; an unexpected exception is INTERNAL."""

    @functools.wraps(method)
    def answer(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except errors.ServingError as raised:
            # The traceback holds this frame, and so the request, until a garbage collection.
            error = raised.with_traceback(None)
        except Exception as raised:
            _LOGGER.exception("%s failed", method.__name__)
            error = errors.Internal(f"{type(raised).__name__}: {raised}")
        return abort(context, error)

    return answer


def _method(api: Api) -> Callable[..., Any]:
    """Returns the method of a servicer that answers the messages of an API."""

    def method(servicer: _Servicer, message: Any, context: grpc.ServicerContext) -> Any:
        trace = trace_of(api.method, context)
        answer = servicer.service.handle(api, message, trace)
        if trace.state is not None and trace.state.is_degraded:
            context.set_trailing_metadata((*context.trailing_metadata(), (STATE, DEGRADED)))
        return answer

    return rpc(method)


class _Servicer:
    """The methods of a gRPC service.

    Args:
        service: Serves the requests.
    """

    def __init__(self, service: InferenceService) -> None:
        self.service = service


class PredictionService(_Servicer, prediction_service_pb2_grpc.PredictionServiceServicer):
    """Scores of the loaded models, and their signatures."""

    Predict = _method(PREDICT)
    Classify = _method(CLASSIFY)
    Regress = _method(REGRESS)
    MultiInference = _method(MULTI_INFERENCE)

    @rpc
    def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        return self.service.metadata(request)


class ScoringService(_Servicer, scoring_pb2_grpc.ScoringServiceServicer):
    """Scores and rankings of the candidates of a context."""

    Rank = _method(RANK)


class StateService(_Servicer, state_pb2_grpc.StateServiceServicer):
    """Events and static features for the store behind the server."""

    @rpc
    def Push(
        self, request: state_pb2.PushRequest, context: grpc.ServicerContext
    ) -> state_pb2.PushResponse:
        return write_added(self.service.push(request.model, read_push(request)))


class ModelService(_Servicer, model_service_pb2_grpc.ModelServiceServicer):
    """Status of the models, and reloads.

    Args:
        service: Serves the requests.
        counter_value: Returns the value of a counter by its name; None without metrics.
    """

    def __init__(
        self, service: InferenceService, counter_value: Callable[[str], int] | None = None
    ) -> None:
        super().__init__(service)
        self._counter_value = counter_value or (lambda name: 0)

    @rpc
    def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        return self.service.status(request)

    @rpc
    def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        before = {name: self._counter_value(name) for name in request.metric_names}
        response = self.service.reload(request)
        for name, count in before.items():
            response.metric.add(name=name, int64_value_increase=self._counter_value(name) - count)
        return response
