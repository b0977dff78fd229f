"""What the service answers: each request by the version it asks for, watched by observers.

gRPC and REST translate; this is what both of them call.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from serving.common import errors
from serving.common.answering import finished
from serving.common.call import Call, Observer
from serving.config.models import ModelConfig, model_configs
from serving.config.server_config import CPUS
from serving.inference.classify import classify, multi_inference, regress
from serving.inference.concurrency import Turns
from serving.inference.predict import predict
from serving.inference.rank import rank
from serving.models.manager import ModelManager
from serving.models.model import Model
from serving.protos import scoring_pb2

_LOGGER = logging.getLogger(__name__)
_SIGNATURE_DEF = "signature_def"

Answer = Callable[[Model, Any, Call], Coroutine[Any, Any, Any]]

# The API's name, and what answers, by the kind of the request.
APIS: Mapping[type, tuple[str, Answer]] = {
    predict_pb2.PredictRequest: ("Predict", predict),
    classification_pb2.ClassificationRequest: ("Classify", classify),
    regression_pb2.RegressionRequest: ("Regress", regress),
    inference_pb2.MultiInferenceRequest: ("MultiInference", multi_inference),
    scoring_pb2.RankRequest: ("Rank", rank),
}


def replay(model: Model, request: Any) -> Call:
    """Has a version answer that nobody is served by yet; the call knows what was computed."""
    api, answer = APIS[type(request)]
    call = Call(api, entrypoint="WARMUP")
    call.response = finished(answer(model, request, call))
    return call


class Inference:
    """Answers requests.

    Args:
        manager: Hands out the versions.
        observers: Told of every call at its end. They run in the thread that answers, before the
            answer leaves; what they raise is logged.
        turns: How many are answered at once.
        check_reload: Raises where a reload by RPC may not have these models.
    """

    def __init__(
        self,
        manager: ModelManager,
        observers: Sequence[Observer] = (),
        turns: Turns | None = None,
        check_reload: Callable[[Sequence[ModelConfig]], object] | None = None,
    ) -> None:
        self.turns = Turns(CPUS) if turns is None else turns
        self._manager = manager
        self._observers = tuple(observers)
        self._check_reload = check_reload

    def answer(self, request: Any, call: Call) -> Any:
        """The answer to a request of one of the kinds of `APIS`.

        Raises:
            ServingError: There is none; anything unforeseen is `Internal`.
        """
        call.request = request
        try:
            spec = _spec(request)
            call.model = spec.name
            with self.turns.taken(call):
                call.response = self._answer(spec, request, call)
        except errors.ServingError as error:
            call.error = error
        except Exception as error:  # a fault of ours is answered too
            _LOGGER.exception("%s failed", call.api)
            call.error = errors.Internal(f"{type(error).__name__}: {error}")
        self._end(call)
        if call.error is not None:
            raise call.error
        return call.response

    def refuse(self, call: Call, error: errors.ServingError) -> None:
        """Has the observers see a call that came to no request."""
        call.error = error
        self._end(call)

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """The signatures of a version."""
        if not request.HasField("model_spec"):
            raise errors.missing_model_spec()
        if not request.metadata_field:
            raise errors.missing_metadata_field()
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise errors.unsupported_metadata_field(field)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with self._lease(_spec(request)) as model:
            response.model_spec.name = model.name
            response.model_spec.version.value = model.version
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.definitions)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    def described(
        self, spec: model_pb2.ModelSpec
    ) -> tuple[Mapping[str, meta_graph_pb2.SignatureDef], bool]:
        """The signatures of the version that a request would be answered by.

        And whether it has missing values (`Model.takes_missing`).
        """
        with self._lease(spec) as model:
            return model.definitions, model.takes_missing

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Where the versions of a model stand."""
        if not request.HasField("model_spec"):
            raise errors.missing_model_spec()
        name, version = request.model_spec.name, _version(request.model_spec)
        statuses = [
            status
            for status in self._manager.statuses(name)
            if version is None or status.version == version
        ]
        if not statuses:
            raise errors.status_not_found(name, version)
        return get_model_status_pb2.GetModelStatusResponse(
            model_version_status=[status.to_proto() for status in statuses]
        )

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest
    ) -> model_management_pb2.ReloadConfigResponse:
        """Makes the models of a configuration the ones that are served; waits until they are."""
        models = model_configs(request.config)
        if self._check_reload is not None:
            self._check_reload(models)
        self._manager.reload(models)
        return model_management_pb2.ReloadConfigResponse()

    def _answer(self, spec: model_pb2.ModelSpec, request: Any, call: Call) -> Any:
        """The version's answer; the next one's where it has gone, and any may answer."""
        try:
            return self._answer_once(spec, request, call)
        except errors.VersionGone:
            is_pinned = spec.WhichOneof("version_choice") is not None
            if is_pinned or call.version is None:
                raise
            if not self._manager.refresh(spec.name, call.version, call.remaining()):
                raise
        return self._answer_once(spec, request, call)

    def _answer_once(self, spec: model_pb2.ModelSpec, request: Any, call: Call) -> Any:
        _, answer = APIS[type(request)]
        with self._lease(spec) as model:
            call.version = model.version
            return model.run(answer(model, request, call), call)

    def _lease(self, spec: model_pb2.ModelSpec) -> contextlib.AbstractContextManager[Model]:
        label = spec.version_label if spec.HasField("version_label") else None
        return self._manager.lease(spec.name, _version(spec), label)

    def _end(self, call: Call) -> None:
        call.seconds = time.perf_counter() - call.started
        call.is_served = call.version is not None or call.model in self._manager.models
        for observer in self._observers:
            try:
                observer(call)
            except Exception:  # who looks on must not spoil the answer
                _LOGGER.exception("An observer failed")


def _spec(request: Any) -> model_pb2.ModelSpec:
    """The model that a request asks for; of several tasks, the first one's."""
    if isinstance(request, inference_pb2.MultiInferenceRequest):
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
    elif request.HasField("model_spec"):
        spec = request.model_spec
    else:
        raise errors.missing_model_spec()
    if not spec.name:
        raise errors.unnamed_model()
    return spec


def _version(spec: model_pb2.ModelSpec) -> int | None:
    return spec.version.value if spec.HasField("version") else None
