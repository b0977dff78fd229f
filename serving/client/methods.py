"""The methods of a client as generators of calls, which `Client` and `AsyncClient` send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from grpc_health.v1 import health_pb2

from serving.client.call import Answer, CallOptions, Calls, Invocation, Rpc
from serving.client.examples import encode_examples
from serving.client.metadata import ModelMetadata
from serving.client.options import check_positive
from serving.client.pushed import Pushed
from serving.client.ranking import Ranking, longest_list, read_ranking
from serving.common.addresses import Addresses
from serving.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    InvalidFeature,
    Unimplemented,
    from_code,
)
from serving.common.signature_names import (
    CLASSIFY_SIGNATURE,
    DEFAULT_SIGNATURE,
    EXPLAINED_SIGNATURE,
    RANK_SIGNATURE,
    REGRESS_SIGNATURE,
)
from serving.common.status import VersionStatus
from serving.encoding.arrow_tables import Table, is_table
from serving.encoding.codec import decode, encode
from serving.encoding.events import PushedRows, push_request
from serving.encoding.features import Row, Rows, encode_candidates, encode_rows
from serving.encoding.raw_values import is_ragged
from serving.protos import tensorflow_serving_pb2 as pb

Outputs = dict[str, np.ndarray]


class Methods:
    """The methods for one model, with its metadata once it was read.

    Args:
        addresses: The servers, for error messages.
        model: Name of the model; None for the only model that the server has.
        version: Version of the model; None for the latest.
        label: Label of the version, instead of its number.
        timeout: Seconds that a method may take by default.
        metadata: Headers of every call.
    """

    def __init__(
        self,
        addresses: Addresses,
        model: str | None,
        version: int | None,
        label: str | None,
        *,
        timeout: float | None,
        metadata: Mapping[str, str | bytes],
    ) -> None:
        if version is not None and label is not None:
            raise InvalidArgument(
                f"`version` and `label` exclude each other. Received: {version} and {label!r}"
            )
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise InvalidArgument(f"`version` must be an integer. Received: {version!r}")
        if timeout is not None:
            check_positive("timeout", timeout)
        self.addresses, self.model, self.version, self.label = addresses, model, version, label
        self.timeout, self._headers = timeout, metadata
        self._cached_metadata: ModelMetadata | None = None

    def predict(
        self,
        inputs: Mapping[str, Any],
        *,
        signature_name: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
        **options: Unpack[CallOptions],
    ) -> Calls[Outputs]:
        """Outputs by name for arrays by input name, which are sent unchanged."""
        invocation = self._begin(options)
        return (yield from self._predict(invocation, inputs, signature_name, output_filter))

    def predict_rows(self, rows: Rows, **options: Unpack[CallOptions]) -> Calls[Outputs]:
        """Scores by task, each (B,), for B rows: dicts of raw values, or an Arrow table."""
        invocation = self._begin(options)
        _require("rows", rows)

        def attempt(metadata: ModelMetadata) -> Calls[Outputs]:
            inputs = encode_rows(rows, metadata.signature(DEFAULT_SIGNATURE).inputs)
            return self._predict(invocation, inputs, DEFAULT_SIGNATURE)

        return (yield from self._with_fresh_metadata(invocation, attempt))

    def rank(
        self, context: Row | Table, candidates: Rows, **options: Unpack[CallOptions]
    ) -> Calls[Outputs]:
        """Scores by task, each (N,), for N candidates in one context, which is computed once."""
        invocation = self._begin(options)
        _require("candidates", candidates)

        def attempt(metadata: ModelMetadata) -> Calls[Outputs]:
            inputs = _encode(context, candidates, metadata, RANK_SIGNATURE)
            return self._predict(invocation, inputs, RANK_SIGNATURE)

        scores = yield from self._with_fresh_metadata(invocation, attempt)
        return {task: score[0] for task, score in scores.items()}

    def explain(
        self,
        context: Row | Table,
        candidates: Rows,
        *,
        rank_by: str = "",
        top_k: int = 0,
        **options: Unpack[CallOptions],
    ) -> Calls[Ranking]:
        """Scores, ranking and explanation of N candidates in one context.

        Args:
            context: Raw values that the candidates share.
            candidates: Their own: dicts, or an Arrow table.
            rank_by: The task that ranks; if empty the first of the experiment file, and with a
                model of another origin the first by name.
            top_k: Length of the ranking; 0 for all candidates.
            options: `timeout`, `request_id`, `metadata`.

        Returns:
            Also the attention weights by history and the gate weights by task, if the model has
            them.

        Raises:
            FailedPrecondition: The model has no signature `rank_explained`.
        """
        invocation = self._begin(options)
        _require("candidates", candidates)
        if top_k < 0:
            raise InvalidArgument(f"`top_k` must not be negative. Received: {top_k}")

        def attempt(metadata: ModelMetadata) -> Calls[Ranking]:
            if EXPLAINED_SIGNATURE not in metadata.signatures:
                raise FailedPrecondition(
                    f"Model {metadata.name!r} version {metadata.version} cannot explain its "
                    f"scores: it has no signature {EXPLAINED_SIGNATURE!r}, which is exported with "
                    "a model that weighs past events, fields or experts. Use `rank`."
                )
            inputs = _encode(context, candidates, metadata, EXPLAINED_SIGNATURE)
            response = yield from self._send_arrays(invocation, inputs, EXPLAINED_SIGNATURE)
            version, events = response.model_spec.version.value, longest_list(context)
            return read_ranking(
                _outputs(response),
                version,
                events,
                rank_by=rank_by,
                first_task=metadata.first_task,
                top_k=top_k,
            )

        return (yield from self._with_fresh_metadata(invocation, attempt))

    def push(
        self,
        events: Sequence[Row] = (),
        *,
        users: Sequence[Row] = (),
        items: Sequence[Row] = (),
        **options: Unpack[CallOptions],
    ) -> Calls[Pushed]:
        """Adds rows to the store behind the server, so that later calls of `rank` know them.

        Args:
            events: Values by column of the log, each with every column that the state reads, None
                for null. A label that arrives later than its row is pushed with the row's time.
            users: Users with their id and all features of the table `data.users`, None where one is
                not known. Each replaces the features of its id.
            items: Items, as `users`, with the features of the table `data.items`.
            options: `timeout`, `request_id`, `metadata`.

        Returns:
            How many events were new. After an error, push the same events again: with event ids
            (`data.event_id`) each counts once.
        """
        invocation = self._begin(options)
        request = push_request(self.model or "", PushedRows(events, users, items))
        response = yield Rpc("Push", request, invocation)
        return Pushed(
            response.counted,
            tuple(response.late),
            tuple(response.ahead),
            tuple(response.repeated_events),
        )

    def classify(
        self,
        rows: Rows,
        *,
        context: Row | Table | None = None,
        signature_name: str = CLASSIFY_SIGNATURE,
        **options: Unpack[CallOptions],
    ) -> Calls[Outputs]:
        """`classes` and `scores` of B rows, each (B, C); rows are sent as tf.train.Examples.

        Args:
            rows: Dicts of raw values, or an Arrow table. Strings become a bytes_list, integers an
                int64_list, floats a float_list.
            context: Raw values that the rows share; sent once.
            signature_name: A signature whose method is Classify; by default that of the first task.
                `classify_<task>` is that of each task of an export.
            options: `timeout`, `request_id`, `metadata`.
        """
        invocation = self._begin(options)
        _require("rows", rows)
        spec = yield from self._spec(invocation, signature_name)
        request = pb.ClassificationRequest(model_spec=spec, input=encode_examples(rows, context))
        response = yield Rpc("Classify", request, invocation)
        table = [result.classes for result in response.result.classifications]
        return {
            "classes": np.array([[entry.label for entry in row] for row in table], object),
            "scores": np.array([[entry.score for entry in row] for row in table], np.float32),
        }

    def regress(
        self,
        rows: Rows,
        *,
        context: Row | Table | None = None,
        signature_name: str = REGRESS_SIGNATURE,
        **options: Unpack[CallOptions],
    ) -> Calls[np.ndarray]:
        """Values (B,) of B rows, which are sent as tf.train.Examples; see `classify`."""
        invocation = self._begin(options)
        _require("rows", rows)
        spec = yield from self._spec(invocation, signature_name)
        request = pb.RegressionRequest(model_spec=spec, input=encode_examples(rows, context))
        response = yield Rpc("Regress", request, invocation)
        return np.array([result.value for result in response.result.regressions], np.float32)

    def metadata(self, **options: Unpack[CallOptions]) -> Calls[ModelMetadata]:
        """Signatures of the version that serves now."""
        return (yield from self._metadata(self._begin(options)))

    def status(self, **options: Unpack[CallOptions]) -> Calls[list[VersionStatus]]:
        """Status of every version of the model, newest first, or of the client's version."""
        invocation = self._begin(options)
        spec = yield from self._spec(invocation)
        spec.ClearField("version_label")  # the protocol reports statuses by number only
        request = pb.GetModelStatusRequest(model_spec=spec)
        response = yield Rpc("GetModelStatus", request, invocation)
        return [VersionStatus.from_proto(proto) for proto in response.model_version_status]

    def health(self, service: str | None = None, **options: Unpack[CallOptions]) -> Calls[bool]:
        """Whether a service is SERVING: the client's model or, if it has none, the server.

        Args:
            service: Another service that the server reports; "" is the whole server.
            options: `timeout`, `request_id`, `metadata`.
        """
        name = (self.model or "") if service is None else service
        request = health_pb2.HealthCheckRequest(service=name)
        response = yield Rpc("Check", request, self._begin(options))
        return response.status == health_pb2.HealthCheckResponse.SERVING

    def reload(
        self,
        model_server_config: Any,
        **options: Unpack[CallOptions],
    ) -> Calls[None]:
        """Replaces the models of the server, and returns once the new ones are loaded.

        Args:
            model_server_config: A ModelServerConfig: of `serving.protos.tensorflow_serving_pb2`,
                or of `tensorflow_serving.config.model_server_config_pb2`.
            options: `timeout`, `request_id`, `metadata`.
        """
        config = _config(model_server_config)
        invocation = self._begin(options)
        request = pb.ReloadConfigRequest(config=config)
        response = yield Rpc("HandleReloadConfigRequest", request, invocation)
        if response.status.error_code:
            error = from_code(response.status.error_code, response.status.error_message)
            error.request_id = invocation.request_id
            raise error

    def _begin(self, options: CallOptions) -> Invocation:
        return Invocation.begin(options, self.timeout, self._headers)

    def _predict(
        self,
        invocation: Invocation,
        inputs: Mapping[str, Any],
        signature_name: str,
        output_filter: Sequence[str] = (),
    ) -> Calls[Outputs]:
        return _outputs(
            (yield from self._send_arrays(invocation, inputs, signature_name, output_filter))
        )

    def _send_arrays(
        self,
        invocation: Invocation,
        inputs: Mapping[str, Any],
        signature_name: str,
        output_filter: Sequence[str] = (),
    ) -> Calls[pb.PredictResponse]:
        spec = yield from self._spec(invocation, signature_name)
        request = pb.PredictRequest(model_spec=spec, output_filter=output_filter)
        for name, array in inputs.items():
            try:
                encode(array, request.inputs[name], content=True)
            except (TypeError, ValueError) as error:
                if is_ragged(array):
                    raise InvalidFeature(
                        f"Feature {name!r}: expected lists of one length. Fill up the shorter ones "
                        'with the missing value: "" for strings, NaN for floats, and the smallest '
                        "int64 for integers."
                    ) from error
                raise InvalidFeature(f"Feature {name!r}: no tensor holds it: {error}") from error
        return (yield Rpc("Predict", request, invocation))

    def _metadata(self, invocation: Invocation) -> Calls[ModelMetadata]:
        request = pb.GetModelMetadataRequest(
            model_spec=(yield from self._spec(invocation)), metadata_field=["signature_def"]
        )
        return ModelMetadata.from_proto((yield Rpc("GetModelMetadata", request, invocation)))

    def _with_fresh_metadata(
        self, invocation: Invocation, attempt: Callable[[ModelMetadata], Calls[Answer]]
    ) -> Calls[Answer]:
        """Encodes and sends; invalid features are tried again if a new version serves meanwhile."""
        cached = self._cached_metadata
        metadata = cached or (yield from self._metadata(invocation))
        self._cached_metadata = metadata
        try:
            return (yield from attempt(metadata))
        except (InvalidArgument, FailedPrecondition):
            if cached is None:
                raise
            metadata = self._cached_metadata = yield from self._metadata(invocation)
            if metadata.version == cached.version:
                raise
            return (yield from attempt(metadata))

    def _spec(self, invocation: Invocation, signature_name: str = "") -> Calls[pb.ModelSpec]:
        if self.model is None:
            self.model = yield from self._only_model(invocation)
        spec = pb.ModelSpec(name=self.model, signature_name=signature_name)
        if self.version is not None:
            spec.version.value = self.version
        if self.label is not None:
            spec.version_label = self.label
        return spec

    def _only_model(self, invocation: Invocation) -> Calls[str]:
        try:
            response = yield Rpc("List", health_pb2.HealthListRequest(), invocation)
        except Unimplemented as error:
            raise InvalidArgument(
                f"`model` must name the model: the server at {self.addresses} lists none."
            ) from error
        names = sorted(name for name in response.statuses if name)
        if len(names) != 1:
            raise InvalidArgument(
                f"`model` must name one of the models at {self.addresses}: {', '.join(names)}"
            )
        return names[0]


def _encode(context: Row | Table, candidates: Rows, metadata: ModelMetadata, key: str) -> Outputs:
    rows = metadata.signature(DEFAULT_SIGNATURE).inputs
    return encode_candidates(context, candidates, metadata.signature(key).inputs, rows)


def _outputs(response: pb.PredictResponse) -> Outputs:
    """Returns the outputs sorted by name, as a protobuf map has no order."""
    return {name: decode(name, response.outputs[name]) for name in sorted(response.outputs)}


def _config(message: Any) -> pb.ModelServerConfig:
    kind = type(message).__name__
    if kind != pb.ModelServerConfig.__name__ or not hasattr(message, "SerializeToString"):
        raise InvalidArgument(
            f"`model_server_config` must be a ModelServerConfig. Received: {kind}"
        )
    return pb.ModelServerConfig.FromString(message.SerializeToString())


def _require(name: str, rows: Any) -> None:
    if isinstance(rows, (str, bytes)) or not (is_table(rows) or isinstance(rows, Sequence)):
        raise InvalidArgument(
            f"`{name}` must be a list of dicts or an Arrow table. Received: {type(rows).__name__}"
        )
    if not len(rows):
        one = name.removesuffix("s")
        raise InvalidArgument(f"`{name}` must hold at least one {one}. Received: none")
