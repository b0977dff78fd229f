"""A client of the scoring service: raw Python values in, numpy scores out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.codec import decode, encode
from serving.errors import (
    FailedPrecondition,
    InvalidArgument,
    Unavailable,
    from_code,
    signature_not_found,
)
from serving.features import Row, TensorSpec, encode_candidates, encode_rows
from serving.signature import DEFAULT_SIGNATURE, RANK_SIGNATURE
from serving.status import VersionStatus

_MESSAGE_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


@dataclass(frozen=True)
class SignatureSpec:
    """Inputs and outputs of one signature by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


@dataclass(frozen=True)
class ModelMetadata:
    """What a served version takes and gives."""

    name: str
    version: int
    signatures: Mapping[str, SignatureSpec]

    def signature(self, key: str) -> SignatureSpec:
        if key not in self.signatures:
            raise signature_not_found(key)
        return self.signatures[key]


class Client:
    """Talks to one scoring server about one model; threads may share it.

    Args:
        address: `host:port` of the server.
        model: Name of the model; None asks the server, which must then serve just one.
        timeout: Seconds that a call may take; None waits for ever.

    Every method raises a `serving.errors.ServingError` of the class that fits the answer:
    `Unavailable` where no server answers, `DeadlineExceeded`, `NotFound`, `InvalidArgument`,
    and `InvalidFeature` where a value cannot be right, before anything is sent.

    Example:
        with Client("localhost:8500", model="ctr") as client:
            scores = client.rank({"user_id": "u7"}, [{"item_id": "i1"}, {"item_id": "i2"}])
            scores["click"]  # (2,)
    """

    def __init__(
        self,
        address: str = "localhost:8500",
        *,
        model: str | None = None,
        timeout: float | None = 5.0,
    ) -> None:
        self._address = address
        self._model = model
        self._timeout = timeout
        self._channel = grpc.insecure_channel(address, options=_MESSAGE_OPTIONS)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)
        self._metadata: ModelMetadata | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._address!r}, model={self._model!r}, timeout={self._timeout})"

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    @property
    def model(self) -> str:
        """Name of the model."""
        if self._model is None:
            self._model = self._only_model()
        return self._model

    def predict_rows(self, rows: Sequence[Row]) -> dict[str, np.ndarray]:
        """Scores of B rows of raw values by task, each (B,)."""
        if not rows:
            raise InvalidArgument("`rows` must hold at least one row. Received: none")
        return self._with_fresh_metadata(
            lambda metadata: encode_rows(rows, metadata.signature(DEFAULT_SIGNATURE).inputs),
            DEFAULT_SIGNATURE,
        )

    def rank(self, context: Row, candidates: Sequence[Row]) -> dict[str, np.ndarray]:
        """Scores of N candidates in one context by task, each (N,)."""
        if not candidates:
            raise InvalidArgument("`candidates` must hold at least one candidate. Received: none")
        scores = self._with_fresh_metadata(
            lambda metadata: encode_candidates(
                context,
                candidates,
                metadata.signature(RANK_SIGNATURE).inputs,
                metadata.signature(DEFAULT_SIGNATURE).inputs,
            ),
            RANK_SIGNATURE,
        )
        return {task: score[0] for task, score in scores.items()}

    def predict(
        self,
        inputs: Mapping[str, Any],
        *,
        signature_name: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
    ) -> dict[str, np.ndarray]:
        """Outputs by name for arrays by input name, sent as they are."""
        request = predict_pb2.PredictRequest(output_filter=output_filter)
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature_name
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(encode(array, content=True))
        response = self._call(self._prediction.Predict, request)
        # A map has no order of its own.
        return {name: decode(name, response.outputs[name]) for name in sorted(response.outputs)}

    def metadata(self) -> ModelMetadata:
        """Signatures of the version that is served now."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=model_pb2.ModelSpec(name=self.model), metadata_field=["signature_def"]
        )
        response = self._call(self._prediction.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return ModelMetadata(
            name=response.model_spec.name,
            version=response.model_spec.version.value,
            signatures=MappingProxyType(
                {
                    key: SignatureSpec(_specs(definition.inputs), _specs(definition.outputs))
                    for key, definition in signatures.signature_def.items()
                    if not key.startswith("__")  # TensorFlow's own
                }
            ),
        )

    def status(self) -> list[VersionStatus]:
        """Where every version of the model stands, newest first."""
        request = get_model_status_pb2.GetModelStatusRequest(
            model_spec=model_pb2.ModelSpec(name=self.model)
        )
        response = self._call(self._models.GetModelStatus, request)
        return [VersionStatus.from_proto(proto) for proto in response.model_version_status]

    def _with_fresh_metadata(
        self, encode_inputs: Callable[[ModelMetadata], dict[str, np.ndarray]], signature_name: str
    ) -> dict[str, np.ndarray]:
        """Encodes and predicts; what does not fit is tried again where a new version is served."""
        known = self._metadata
        metadata = known or self.metadata()
        self._metadata = metadata
        try:
            return self.predict(encode_inputs(metadata), signature_name=signature_name)
        except (InvalidArgument, FailedPrecondition):
            if known is None:
                raise
            metadata = self._metadata = self.metadata()
            if metadata.version == known.version:
                raise
            return self.predict(encode_inputs(metadata), signature_name=signature_name)

    def _only_model(self) -> str:
        response = self._call(self._health.List, health_pb2.HealthListRequest())
        names = sorted(name for name in response.statuses if name)
        if len(names) != 1:
            raise InvalidArgument(
                f"`model` must name one of the models at {self._address}: {', '.join(names)}"
            )
        return names[0]

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code, words = error.code(), error.details() or ""
            # This client cancels nothing: a cancelled call met a server that was stopping.
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                raise Unavailable(f"No scores from {self._address}: {words}") from error
            if code == grpc.StatusCode.DEADLINE_EXCEEDED and self._timeout is not None:
                words = f"No answer from {self._address} within {self._timeout:g} s: {words}"
            raise from_code(code.value[0], words) from error


def _specs(infos: Mapping[str, Any]) -> Mapping[str, TensorSpec]:
    return MappingProxyType({name: TensorSpec.from_proto(infos[name]) for name in sorted(infos)})
