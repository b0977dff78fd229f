"""TensorFlow Serving's gRPC services."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving.common import errors
from serving.inference.plan import Api
from serving.inference.service import (
    CLASSIFY,
    MULTI_INFERENCE,
    PREDICT,
    REGRESS,
    InferenceService,
)
from serving.rpc.traces import abort, trace_of

_LOGGER = logging.getLogger(__name__)

Answer = TypeVar("Answer")


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


def handle(service: InferenceService, api: Api, message: Any, context: grpc.ServicerContext) -> Any:
    """Answers a message of an API."""
    return service.handle(api, message, trace_of(api.method, context))


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Scores of the loaded models, and their signatures."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    @rpc
    def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        return handle(self._service, PREDICT, request, context)

    @rpc
    def Classify(
        self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext
    ) -> classification_pb2.ClassificationResponse:
        return handle(self._service, CLASSIFY, request, context)

    @rpc
    def Regress(
        self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext
    ) -> regression_pb2.RegressionResponse:
        return handle(self._service, REGRESS, request, context)

    @rpc
    def MultiInference(
        self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext
    ) -> inference_pb2.MultiInferenceResponse:
        return handle(self._service, MULTI_INFERENCE, request, context)

    @rpc
    def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        return self._service.metadata(request)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Status of the models, and reloads.

    Args:
        service: Serves the requests.
        counted: Returns the value of a counter by its name; None without metrics.
    """

    def __init__(
        self,
        service: InferenceService,
        counter_value: Callable[[str], int] | None = None,
    ) -> None:
        self._service = service
        self._counter_value = counter_value or (lambda name: 0)

    @rpc
    def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        return self._service.status(request)

    @rpc
    def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        before = {name: self._counter_value(name) for name in request.metric_names}
        response = self._service.reload(request)
        for name, count in before.items():
            response.metric.add(name=name, int64_value_increase=self._counter_value(name) - count)
        return response
