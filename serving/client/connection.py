"""The connection of a client without its I/O: target, credentials, headers and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import grpc
from grpc_health.v1 import health_pb2

from serving.client.call import Rpc
from serving.client.options import ClientOptions
from serving.common.addresses import Addresses
from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    ServingError,
    Unavailable,
    from_code,
)
from serving.common.headers import PUSHBACK, REQUEST_ID
from serving.common.tls import Tls, Token, check_token
from serving.protos import state_pb2
from serving.protos import tensorflow_serving_pb2 as pb

# Part of gRPC's message -> advice.
_HINTS = (
    ("CERTIFICATE_VERIFY_FAILED", "Trust its authority with `tls`, or give `Tls(server_name=...)`"),
    ("Hostname Verification", "Give `Tls(server_name=...)` the name in the server's certificate"),
    ("WRONG_VERSION_NUMBER", "The server speaks no TLS there: leave `tls` out"),
    ("handshake failed", "Check `tls`, and whether the server asks for a client's certificate"),
    ("Socket closed", "Check whether the server wants TLS: set `tls`"),
    ("Connection reset", "Check whether the server wants TLS: set `tls`"),
    ("resol", "Check the host name"),
    ("unhealthy", "None of the servers is ready: wait, or see `health_service` of the options"),
    # For a host with several addresses gRPC reports the last, on which no server may ever listen.
    ("onnect", "Check that the server runs and listens there, and whether it speaks TLS: `tls`"),
)
_ASKS = "Check whether the server asks for a certificate: `Tls(certificate=..., key=...)`"
_TLS_HINTS = (
    (
        "security handshaker",
        "Check that `tls` holds certificates, and `tls.key` the key of `tls.certificate`",
    ),
    ("Socket closed", _ASKS),
    ("Connection reset", _ASKS),
    *_HINTS,
)


# Name, request and response of each method, by service; no two services share a name.
METHODS: Mapping[str, tuple[tuple[str, type[Any], type[Any]], ...]] = {
    "tensorflow.serving.PredictionService": (
        ("Predict", pb.PredictRequest, pb.PredictResponse),
        ("Classify", pb.ClassificationRequest, pb.ClassificationResponse),
        ("Regress", pb.RegressionRequest, pb.RegressionResponse),
        ("GetModelMetadata", pb.GetModelMetadataRequest, pb.GetModelMetadataResponse),
    ),
    "tensorflow.serving.ModelService": (
        ("GetModelStatus", pb.GetModelStatusRequest, pb.GetModelStatusResponse),
        ("HandleReloadConfigRequest", pb.ReloadConfigRequest, pb.ReloadConfigResponse),
    ),
    "recsys_attn.serving.StateService": (("Push", state_pb2.PushRequest, state_pb2.PushResponse),),
    "grpc.health.v1.Health": (
        ("Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse),
        ("List", health_pb2.HealthListRequest, health_pb2.HealthListResponse),
    ),
}


class Channels(NamedTuple):
    """The open channels of a client, and the methods of all services by name."""

    channels: tuple[Any, ...]
    methods: Mapping[str, Callable[..., Any]]


_SCORING = "tensorflow.serving.PredictionService"


class Connection:
    """Opens channels, and turns errors of gRPC into errors of this project.

    Args:
        addresses: The servers.
        tls: Encryption; None for plaintext.
        token: Bearer token of every call.
        options: Retries, timeouts and headers.

    Raises:
        InvalidArgument: A certificate cannot be read, or a token would travel in plaintext.
    """

    def __init__(
        self, addresses: Addresses, tls: Tls | None, token: Token | None, options: ClientOptions
    ) -> None:
        check_token(token, tls, addresses, options.allow_insecure_token)
        self.addresses = addresses
        self.token = token
        self._hints = _HINTS if tls is None else _TLS_HINTS
        self._credentials = None if tls is None else tls.credentials()
        self._options = options
        self._tls_options = [] if tls is None else tls.options(addresses)
        self._target = addresses.target()

    def open(self, library: Any) -> Channels:
        """Opens the channels by `grpc` or `grpc.aio`.

        One of several servers gets requests for scores only while it is healthy. Calls about
        models have a channel of their own, as they are for servers that are not ready too.
        """
        balances = self._options.health_service is not None and self.addresses.may_be_several
        any_server = self._channel(library, asks_health=False)
        healthy = self._channel(library, asks_health=True) if balances else any_server
        methods = {
            name: (healthy if service == _SCORING else any_server).unary_unary(
                f"/{service}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for service, methods in METHODS.items()
            for name, request, response in methods
        }
        return Channels((any_server, healthy) if balances else (any_server,), methods)

    def _channel(self, library: Any, asks_health: bool) -> Any:
        options = self._options.channel_options(asks_health) + self._tls_options
        if self._credentials is None:
            return library.insecure_channel(self._target, options)
        return library.secure_channel(self._target, self._credentials, options)

    def closed(self, call: Rpc) -> ServingError:
        """Returns the error of a call during or after `close`."""
        raised = FailedPrecondition(f"The client of {self.addresses} is closed. Make another one.")
        raised.request_id = call.invocation.request_id
        return raised

    def failure(self, call: Rpc, error: grpc.RpcError, *, is_closed: bool) -> ServingError:
        """Returns this project's error for an error of gRPC."""
        if is_closed and error.code() is grpc.StatusCode.CANCELLED:
            return self.closed(call)
        raised = from_code(error.code().value[0], error.details() or "")
        details = str(raised)
        # The client cancels on close only: any other cancelled call met a stopping server.
        if isinstance(raised, (Unavailable, Cancelled)) and not _is_answer(error):
            hints = [hint for part, hint in self._hints if part in details]
            advice = f"{hints[0]}. " if hints else ""
            raised = Unavailable(
                f"Cannot reach {self.addresses}. {advice}Reported by gRPC: {details}"
            )
        if isinstance(raised, DeadlineExceeded) and call.invocation.timeout is not None:
            raised = DeadlineExceeded(
                f"No answer from {self.addresses} within {call.invocation.timeout:g} s: {details}"
            )
        raised.request_id = call.invocation.request_id
        raised.retry_after = _retry_after(error)
        return raised


def _retry_after(error: Any) -> float | None:
    """Returns the seconds to wait before a retry, as a busy server sends them."""
    milliseconds = dict(error.trailing_metadata() or ()).get(PUSHBACK, "")
    return int(milliseconds) / 1e3 if milliseconds.isdecimal() else None


def _is_answer(error: Any) -> bool:
    """Returns whether a server sent the error: its answers carry the request id."""
    return any(key == REQUEST_ID for key, _ in error.trailing_metadata() or ())
