"""A fleet of servers that speak TensorFlow Serving's protocol, as a runtime: a front's."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

from serving.common.addresses import Addresses
from serving.common.errors import (
    DataLoss,
    DeadlineExceeded,
    NotFound,
    Unavailable,
    VersionGone,
    from_code,
)
from serving.common.status import State
from serving.common.tls import Tls
from serving.encoding.codec import decode, encode
from serving.runtimes.base import LONGEST_SECONDS
from serving.runtimes.tensorflow.saved_model import INIT_SIGNATURE

_SCHEME = re.compile("grpcs?://")
_SIGNATURE_DEF = "signature_def"
_ASK_SECONDS = 10.0  # for what is known of a model, shared by the servers that are asked
# Not the fault of whoever asked the front, and another server may do.
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # over the addresses that a name has
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


Method = Callable[[grpc.Channel], Any]


def backend_addresses(backend: str) -> tuple[str, ...]:
    """The `host:port` of each server of `grpc://HOST:PORT[,HOST:PORT]`, or `grpcs://`.

    Raises:
        ValueError: It is written in another way.
    """
    addresses = tuple(part.strip() for part in _SCHEME.sub("", backend, count=1).split(","))
    if not _SCHEME.match(backend) or not all(
        address.rpartition(":")[0] and address.rpartition(":")[2].isdecimal()
        for address in addresses
    ):
        raise ValueError(
            "`backend` must be grpc://HOST:PORT[,HOST:PORT], or grpcs:// for TLS. "
            f"Received: backend={backend!r}"
        )
    return addresses


def remote_versions(fleet: BackendPool, model: str) -> list[int]:
    """The versions of a model that a fleet has available, newest first.

    Raises:
        NotFound: It has no such model.
        Unavailable: None of its servers answers.
    """
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=model_pb2.ModelSpec(name=model))
    found: list[int] = []
    for response in fleet.ask(
        lambda channel: model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus, request
    ):
        statuses = response.model_version_status
        found = sorted((s.version for s in statuses if s.state == State.AVAILABLE), reverse=True)
        if found:  # else that server still loads
            break
    return found


class BackendPool:
    """Servers that are asked in turn; one that does not answer hands over to the next.

    So does one that has no such version: in a rollout some have it before others.

    Args:
        addresses: `host:port` of each.
        tls: How they are reached; None is plaintext.

    Raises:
        InvalidArgument: A file of `tls` is not what it should be.
    """

    def __init__(self, addresses: Sequence[str], tls: Tls | None = None) -> None:
        self._addresses = tuple(addresses)
        if tls is None:
            self._channels = [grpc.insecure_channel(a, options=_OPTIONS) for a in addresses]
        else:
            credentials = tls.credentials()
            self._channels = [
                grpc.secure_channel(a, credentials, [*_OPTIONS, *tls.options(Addresses((a,)))])
                for a in addresses
            ]
        self._turns = itertools.count()

    def call(self, method: Method, request: Any, timeout: float | None) -> Any:
        """The answer of the first server, from the one whose turn it is on, that gives one.

        Raises:
            ServingError: What a server answered instead, in its code and words.
            NotFound: Those that answer have no such model or version.
            Unavailable: None of them answers.
        """
        count = len(self._channels)
        turn = next(self._turns)
        order = [(turn + offset) % count for offset in range(count)]
        end = None if timeout is None else time.monotonic() + min(timeout, LONGEST_SECONDS)

        def remaining() -> float | None:
            seconds = None if end is None else end - time.monotonic()
            if seconds is not None and seconds <= 0:
                raise DeadlineExceeded("The deadline passed before the backend answered.")
            return seconds

        return next(self._answers(order, method, request, remaining, _SILENT[:1]))

    def ask(self, method: Method, request: Any) -> Iterator[Any]:
        """What the servers know, each in its turn from the first on; one that is slow is silent.

        Raises:
            ServingError: As `call`.
        """
        order, seconds = range(len(self._channels)), _ASK_SECONDS / len(self._channels)
        return self._answers(order, method, request, lambda: seconds, _SILENT)

    def _answers(
        self,
        order: Iterable[int],
        method: Method,
        request: Any,
        timeout: Callable[[], float | None],
        silent: Sequence[grpc.StatusCode],
    ) -> Iterator[Any]:
        """The answers of those that are not silent; raises at the end where there was none."""
        has_answered, reason, absent = False, "", ""
        for at in order:
            try:
                answer = method(self._channels[at])(request, timeout=timeout())
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    absent = error.details()
                elif error.code() in silent:
                    reason = f"{self._addresses[at]}: {error.details()}"
                elif error.code() in _REFUSALS:
                    reason = (
                        f"{self._addresses[at]}, refuses this server, whose `backend_token_file` "
                        f"and certificate it looks at: {error.details()}"
                    )
                else:
                    raise from_code(error.code().value[0], error.details()) from error
            else:
                has_answered = True
                yield answer
        if absent and not has_answered:
            raise NotFound(absent)
        if not has_answered:
            raise Unavailable(f"No server of the backend answers; the last one, {reason}")

    def close(self) -> None:
        """Ends the connections."""
        for channel in self._channels:
            channel.close()


class RemoteModel:
    """One version of a model on a fleet of servers.

    Args:
        fleet: The servers.
        model: Name of the model there.
        version: Its version there.

    Raises:
        ServingError: The fleet does not say what its signatures are.
    """

    def __init__(self, fleet: BackendPool, model: str, version: int) -> None:
        self._spec = model_pb2.ModelSpec(name=model)
        self._spec.version.value = version
        self._fleet = fleet
        self.definitions: Mapping[str, meta_graph_pb2.SignatureDef] = self._ask()

    def _ask(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=[_SIGNATURE_DEF]
        )
        response = next(
            self._fleet.ask(
                lambda channel: (
                    prediction_service_pb2_grpc.PredictionServiceStub(channel).GetModelMetadata
                ),
                request,
            )
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
        """Outputs by name, as `Runtime` says.

        Raises:
            VersionGone: The fleet has this version no longer.
        """
        request = predict_pb2.PredictRequest(model_spec=self._spec, output_filter=outputs)
        request.model_spec.signature_name = key
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(encode(array, content=True))
        try:
            response = self._fleet.call(
                lambda channel: prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict,
                request,
                timeout,
            )
        except NotFound as error:
            raise VersionGone(str(error)) from error
        return {name: decode(name, response.outputs[name]) for name in outputs}

    def close(self) -> None:
        """Frees nothing: the connections are those of all versions."""
