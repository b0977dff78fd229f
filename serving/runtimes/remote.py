"""A fleet of servers that speak TensorFlow Serving's protocol, as a runtime: a front's."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.codec import decode, encode
from serving.errors import DataLoss, DeadlineExceeded, NotFound, Unavailable, from_code
from serving.runtimes.base import LONGEST_SECONDS
from serving.runtimes.saved_model import INIT_SIGNATURE
from serving.status import State

_SCHEME = "grpc://"
_SIGNATURE_DEF = "signature_def"
_ASK_SECONDS = 10.0  # for what is known of a model, which takes no computation
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # over the addresses that a name has
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


def backend_addresses(backend: str) -> tuple[str, ...]:
    """The `host:port` of each server of `grpc://HOST:PORT[,HOST:PORT]`.

    Raises:
        ValueError: It is written in another way.
    """
    addresses = tuple(part.strip() for part in backend.removeprefix(_SCHEME).split(","))
    if not backend.startswith(_SCHEME) or not all(
        address.rpartition(":")[0] and address.rpartition(":")[2].isdecimal()
        for address in addresses
    ):
        raise ValueError(
            f"`backend` must be grpc://HOST:PORT[,HOST:PORT]. Received: backend={backend!r}"
        )
    return addresses


def remote_versions(addresses: Sequence[str], model: str) -> list[int]:
    """The versions of a model that a fleet has available, newest first.

    Raises:
        NotFound: It has no such model.
        Unavailable: None of its servers answers.
    """
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=model_pb2.ModelSpec(name=model))
    fleet = Fleet(addresses)
    try:
        response = fleet.call(
            lambda channel: model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus,
            request,
            _ASK_SECONDS,
        )
    finally:
        fleet.close()
    return sorted(
        (s.version for s in response.model_version_status if s.state == State.AVAILABLE),
        reverse=True,
    )


class Fleet:
    """Servers that are asked in turn; one that does not answer hands over to the next.

    So does one that has no such version: in a rollout some have it before others.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self._channels = [grpc.insecure_channel(a, options=_OPTIONS) for a in addresses]
        self._turns = itertools.count()

    def call(
        self, method: Callable[[grpc.Channel], Any], request: Any, timeout: float | None
    ) -> Any:
        """The answer of the first server, from the one whose turn it is on, that gives one.

        Raises:
            ServingError: What a server answered instead, in its code and words.
            NotFound: Those that answer have no such model or version.
            Unavailable: None of them answers.
        """
        end = None if timeout is None else time.monotonic() + min(timeout, LONGEST_SECONDS)
        turn = next(self._turns)
        reason, absent = "", ""
        for offset in range(len(self._channels)):
            remaining = None if end is None else end - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise DeadlineExceeded("The deadline passed before the backend answered.")
            at = (turn + offset) % len(self._channels)
            try:
                return method(self._channels[at])(request, timeout=remaining)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    absent = error.details()
                    continue
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise from_code(error.code().value[0], error.details()) from error
                reason = f"{self._addresses[at]}: {error.details()}"
        if absent:
            raise NotFound(absent)
        raise Unavailable(f"No server of the backend answers; the last one, {reason}")

    def close(self) -> None:
        """Ends the connections."""
        for channel in self._channels:
            channel.close()


class Remote:
    """One version of a model on a fleet of servers.

    Args:
        addresses: `host:port` of each server.
        model: Name of the model there.
        version: Its version there.

    Raises:
        ServingError: The fleet does not say what its signatures are.
    """

    def __init__(self, addresses: Sequence[str], model: str, version: int) -> None:
        self._spec = model_pb2.ModelSpec(name=model)
        self._spec.version.value = version
        self._fleet = Fleet(addresses)
        try:
            self.definitions: Mapping[str, meta_graph_pb2.SignatureDef] = self._ask()
        except BaseException:
            self.close()
            raise

    def _ask(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        response = self._fleet.call(
            lambda channel: (
                prediction_service_pb2_grpc.PredictionServiceStub(channel).GetModelMetadata
            ),
            get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=self._spec, metadata_field=[_SIGNATURE_DEF]
            ),
            _ASK_SECONDS,
        )
        found = get_model_metadata_pb2.SignatureDefMap()
        if not response.metadata[_SIGNATURE_DEF].Unpack(found):
            raise DataLoss("The backend's metadata holds no signatures.")
        return {k: v for k, v in found.signature_def.items() if k != INIT_SIGNATURE}

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says."""
        request = predict_pb2.PredictRequest(model_spec=self._spec, output_filter=outputs)
        request.model_spec.signature_name = key
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(encode(array, content=True))
        try:
            response = self._predict(request, timeout)
        except NotFound:  # the fleet went on to another version before this front has
            request.model_spec.ClearField("version")
            response = self._predict(request, timeout)
        return {name: decode(name, response.outputs[name]) for name in outputs}

    def _predict(self, request: predict_pb2.PredictRequest, timeout: float | None) -> Any:
        return self._fleet.call(
            lambda channel: prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict,
            request,
            timeout,
        )

    def close(self) -> None:
        """Ends the connections."""
        self._fleet.close()
