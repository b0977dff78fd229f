"""Serves each request with the version that it names, and reports it to the observers.

gRPC and REST translate; both of them call this.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

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
from serving.common.request import ModelRef, RequestContext
from serving.common.request_trace import Observer, RequestTrace
from serving.common.rpc_names import PREDICTION_SERVICE, SCORING_SERVICE
from serving.config.canary import CanaryOptions
from serving.config.models import ModelConfig, model_configs
from serving.config.server_config import CPUS
from serving.encoding.events import PushedRows
from serving.inference.admission import Admission
from serving.inference.classify import read_classify, read_multi_inference, read_regress
from serving.inference.model_states import ModelStates
from serving.inference.plan import Api, compute
from serving.inference.predict import read_predict
from serving.inference.rank import read_rank
from serving.models.manager import ModelManager
from serving.models.model import Model
from serving.protos import scoring_pb2
from serving.state.online.writer import Added

_LOGGER = logging.getLogger(__name__)
_SIGNATURE_DEF = "signature_def"

Answer = TypeVar("Answer")


def _spec_of(message: Any) -> model_pb2.ModelSpec:
    if not message.HasField("model_spec"):
        raise errors.InvalidArgument("Missing ModelSpec")
    spec: model_pb2.ModelSpec = message.model_spec
    return spec


def _first_spec(message: inference_pb2.MultiInferenceRequest) -> model_pb2.ModelSpec:
    """Returns the model spec of the first task, which names the model of all tasks."""
    return message.tasks[0].model_spec if message.tasks else model_pb2.ModelSpec()


PREDICT = Api("Predict", PREDICTION_SERVICE, _spec_of, read_predict)
CLASSIFY = Api("Classify", PREDICTION_SERVICE, _spec_of, read_classify)
REGRESS = Api("Regress", PREDICTION_SERVICE, _spec_of, read_regress)
MULTI_INFERENCE = Api("MultiInference", PREDICTION_SERVICE, _first_spec, read_multi_inference)
RANK = Api("Rank", SCORING_SERVICE, _spec_of, read_rank)

# For messages of unknown kind: those of a warm-up file.
_APIS = {
    predict_pb2.PredictRequest: PREDICT,
    classification_pb2.ClassificationRequest: CLASSIFY,
    regression_pb2.RegressionRequest: REGRESS,
    inference_pb2.MultiInferenceRequest: MULTI_INFERENCE,
    scoring_pb2.RankRequest: RANK,
}


def replay(model: Model, message: Any) -> RequestTrace:
    """Answers a message of a warm-up file with a version that serves no client yet."""
    api = _APIS[type(message)]
    trace = RequestTrace(RequestContext(api.name, entrypoint="WARMUP"))
    trace.response = compute(model, api.read(model, message), trace)
    return trace


class InferenceService:
    """Serves requests, metadata and states of models.

    Args:
        manager: Leases the versions.
        observers: Called with the trace of every request at its end, in the thread that serves
            it, before the answer leaves. Their exceptions are logged.
        admission: Decides which requests are served, and when.
        check_reload: Raises if these models must not be configured by a request.
        begin: Called with the trace of every request before it is served.
        states: The store behind the server, which receives events; None without one.
        canary: Chooses the label of requests that name no version and no label. Without it the
            newest version answers them.
    """

    def __init__(
        self,
        manager: ModelManager,
        observers: Sequence[Observer] = (),
        admission: Admission | None = None,
        check_reload: Callable[[Sequence[ModelConfig]], object] | None = None,
        begin: Observer | None = None,
        states: ModelStates | None = None,
        canary: CanaryOptions | None = None,
    ) -> None:
        self._canary = canary
        self._states = states
        self.admission = Admission(CPUS) if admission is None else admission
        self._begin = begin
        self._manager = manager
        self._observers = tuple(observers)
        self._check_reload = check_reload

    def handle(self, api: Api, message: Any, trace: RequestTrace) -> Any:
        """Returns the answer to a message.

        Raises:
            ServingError: The request failed; an unexpected exception is `Internal`.
        """
        trace.message = message

        def work(model: Model) -> Any:
            with self.admission.acquire(trace):
                return compute(model, api.read(model, message), trace)

        with self.observed(trace):
            trace.response = self.answer(model_ref(api.model_spec(message)), work, trace)
        return trace.response

    def answer(self, ref: ModelRef, work: Callable[[Model], Answer], trace: RequestTrace) -> Answer:
        """Runs `work` with the version that a request names, which is leased until its end.

        If a backend has unloaded the version meanwhile, it runs again with the next one.
        """
        trace.model = ref.name
        try:
            return self._answer_once(ref, work, trace)
        except errors.VersionGone:
            is_pinned = ref.version is not None or ref.label is not None
            if is_pinned or trace.version is None:
                raise
            if not self._manager.refresh(ref.name, trace.version, trace.context.remaining()):
                raise
        return self._answer_once(ref, work, trace)

    @contextlib.contextmanager
    def observed(self, trace: RequestTrace) -> Iterator[None]:
        """Reports the request of the block to the observers, with its error if it has one.

        Raises:
            ServingError: The block failed; an unexpected exception is `Internal`.
        """
        if self._begin is not None:
            _observe(self._begin, trace)
        try:
            yield
        except errors.ServingError as error:
            trace.error = error
            raise
        except Exception as error:
            _LOGGER.exception("%s failed", trace.context.api)
            trace.error = errors.Internal(f"{type(error).__name__}: {error}")
            raise trace.error from error
        finally:
            self._report(trace)

    def reject(self, trace: RequestTrace, error: errors.ServingError) -> None:
        """Reports a request that was rejected before it was read.

        gRPC and REST call it in the thread that accepts all requests, so no observer may wait.
        """
        if isinstance(error, errors.ResourceExhausted):
            self.admission.note_patience(trace.context)
        trace.error = error
        self._report(trace)

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Returns the signatures of a version; with a canary, of the stable one by default."""
        spec = _spec_of(request)
        if not request.metadata_field:
            raise errors.InvalidArgument(
                "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise errors.InvalidArgument(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        ref = model_ref(spec)
        with contextlib.ExitStack() as lease:
            model, _ = self._lease(lease, ref, self._labels(ref, "")[-1:])
            response.model_spec.name = model.name
            response.model_spec.version.value = model.version
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.definitions)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the states of the versions of a model, or of the one that is named or labelled.

        Raises:
            NotFound: The model is unknown, or has no such version.
            InvalidArgument: It has no such label.
        """
        spec = _spec_of(request)
        name, version = spec.name, _version(spec)
        model = self._manager.models.get(name)
        if spec.HasField("version_label") and model is not None:
            version = model.labels.get(spec.version_label)
            if version is None:
                raise errors.unrecognized_label(spec.version_label)
        statuses = [
            status
            for status in self._manager.statuses(name)
            if version is None or status.version == version
        ]
        if not statuses:
            subject = "any versions" if version is None else f"version {version}"
            raise errors.NotFound(f"Could not find {subject} of model {name}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for status in statuses:
            status.write(response.model_version_status.add())
        return response

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest
    ) -> model_management_pb2.ReloadConfigResponse:
        """Serves the models of a configuration instead; returns once they are loaded."""
        models = model_configs(request.config)
        if self._check_reload is not None:
            self._check_reload(models)
        self._manager.reload(models)
        return model_management_pb2.ReloadConfigResponse()

    def push(self, name: str, rows: PushedRows) -> Added:
        """Adds rows to the store behind the server; as `ModelStates.push`."""
        if self._states is None:
            raise errors.FailedPrecondition(
                "This server has no store for events. Start it with `--state`."
            )
        return self._states.push(name, rows)

    def _answer_once(
        self, ref: ModelRef, work: Callable[[Model], Answer], trace: RequestTrace
    ) -> Answer:
        with contextlib.ExitStack() as lease:
            labels = self._labels(ref, trace.context.request_id)
            model, trace.label = self._lease(lease, ref, labels)
            trace.version = model.version
            return work(model)

    def _labels(self, ref: ModelRef, request_id: str) -> tuple[str, ...]:
        """Returns the labels to try for a request that names no version and no label."""
        if self._canary is None or ref.version is not None or ref.label is not None:
            return ()
        return self._canary.labels(ref.name, request_id)

    def _lease(
        self, lease: contextlib.ExitStack, ref: ModelRef, labels: Sequence[str]
    ) -> tuple[Model, str]:
        """Leases the version of the first label that has one available, else the one of `ref`.

        Returns:
            The version, and the label that chose it; empty without one.
        """
        for label in labels:
            with contextlib.suppress(errors.ServingError):
                return lease.enter_context(self._manager.lease(ref.name, label=label)), label
        return lease.enter_context(self._manager.lease(*ref)), ref.label or ""

    def _report(self, trace: RequestTrace) -> None:
        trace.seconds = time.perf_counter() - trace.started
        trace.is_served = trace.version is not None or trace.model in self._manager.models
        for observer in self._observers:
            _observe(observer, trace)


def _observe(observer: Observer, trace: RequestTrace) -> None:
    try:
        observer(trace)
    except Exception:  # an observer must not spoil the answer
        _LOGGER.exception("An observer failed")


def model_ref(spec: model_pb2.ModelSpec) -> ModelRef:
    """Returns the model, and the version or label, that a spec names."""
    if not spec.name:
        raise errors.InvalidArgument("ModelSpec has no name specified.")
    label = spec.version_label if spec.HasField("version_label") else None
    return ModelRef(spec.name, _version(spec), label)


def _version(spec: model_pb2.ModelSpec) -> int | None:
    return spec.version.value if spec.HasField("version") else None
