"""TensorFlow Serving's services. They translate: requests to calls, errors to codes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving import errors
from serving.manager import ModelManager
from serving.predict import read_request, write_response

_LOGGER = logging.getLogger(__name__)
_SIGNATURE_DEF = "signature_def"

Answer = TypeVar("Answer")


def _rpc(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """Answers a raised error as its code and words; anything unforeseen is INTERNAL."""

    @functools.wraps(method)
    def answer(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except errors.ServingError as raised:
            error = raised
        except Exception as raised:
            _LOGGER.exception("%s failed", method.__name__)
            error = errors.Internal(f"{type(raised).__name__}: {raised}")
        return context.abort(error.code, errors.truncated(str(error)))

    return answer


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Scores of loaded models, and what their signatures are."""

    def __init__(self, manager: ModelManager) -> None:
        self._manager = manager

    @_rpc
    def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        name, version = _named_model(request)
        with self._manager.lease(name, version) as model:
            task = read_request(model, request)
            _require_caller(context)
            return write_response(model, task.signature, task.run())

    @_rpc
    def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        if not request.HasField("model_spec"):
            raise errors.missing_model_spec()
        if not request.metadata_field:
            raise errors.missing_metadata_field()
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise errors.unsupported_metadata_field(field)
        name, version = _named_model(request)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._manager.lease(name, version) as model:
            response.model_spec.name = model.name
            response.model_spec.version.value = model.version
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.definitions)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    @_rpc
    def Classify(
        self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext
    ) -> classification_pb2.ClassificationResponse:
        _unimplemented("Classify")

    @_rpc
    def Regress(
        self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext
    ) -> regression_pb2.RegressionResponse:
        _unimplemented("Regress")

    @_rpc
    def MultiInference(
        self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext
    ) -> inference_pb2.MultiInferenceResponse:
        _unimplemented("MultiInference")


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Where the versions of each model stand."""

    def __init__(self, manager: ModelManager) -> None:
        self._manager = manager

    @_rpc
    def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        if not request.HasField("model_spec"):
            raise errors.missing_model_spec()
        name, version = request.model_spec.name, _version(request.model_spec)
        versions = self._manager.models.get(name)
        statuses = [
            status
            for status in (versions.statuses() if versions is not None else [])
            if version is None or status.version == version
        ]
        if not statuses:
            raise errors.status_not_found(name, version)
        return get_model_status_pb2.GetModelStatusResponse(
            model_version_status=[status.to_proto() for status in statuses]
        )

    @_rpc
    def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        _unimplemented("HandleReloadConfigRequest")


def _named_model(request: Any) -> tuple[str, int | None]:
    """Model and version that a request asks for; None asks for the latest."""
    if not request.HasField("model_spec"):
        raise errors.missing_model_spec()
    if not request.model_spec.name:
        raise errors.unnamed_model()
    return request.model_spec.name, _version(request.model_spec)


def _version(spec: model_pb2.ModelSpec) -> int | None:
    choice = spec.WhichOneof("version_choice")
    if choice == "version_label":
        raise errors.unrecognized_label(spec.version_label)
    return spec.version.value if choice == "version" else None


def _require_caller(context: grpc.ServicerContext) -> None:
    """Raises where nobody waits for the answer any more, so that it is not computed."""
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise errors.DeadlineExceeded("The deadline had passed before the computation began.")
    if not context.is_active():
        raise errors.Cancelled("The caller has gone.")


def _unimplemented(method: str) -> NoReturn:
    raise errors.Unimplemented(f"{method} is not implemented by this server.")
