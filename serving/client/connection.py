"""What a blocking and an asyncio connection have in common: all but the I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving.client.call import Call
from serving.client.options import Options
from serving.common.addresses import Addresses, Target
from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    ServingError,
    Unavailable,
    from_code,
)
from serving.common.tls import Tls, Token, check_token
from serving.protos import scoring_pb2_grpc

# Part of gRPC's words -> what to do.
_HINTS = (
    ("CERTIFICATE_VERIFY_FAILED", "Trust its authority with `tls`, or give `Tls(server_name=...)`"),
    ("Hostname Verification", "Give `Tls(server_name=...)` the name in the server's certificate"),
    ("WRONG_VERSION_NUMBER", "The server speaks no TLS there: leave `tls` out"),
    ("handshake failed", "Check `tls`, and whether the server asks for a client's certificate"),
    ("Socket closed", "Check whether the server wants TLS: set `tls`"),
    ("Connection reset", "Check whether the server wants TLS: set `tls`"),
    ("resol", "Check the host's name"),
    # Of a host with several addresses gRPC tells of the last, where maybe nobody ever listened.
    ("onnect", "Check that the server runs and listens there, and whether it speaks TLS: `tls`"),
)
_ASKS = "Check whether the server asks for a certificate: `Tls(certificate=..., key=...)`"
_TLS_HINTS = (
    (
        "security handshaker",
        "Check that `tls` holds certificates, and `tls.key` the key of its own",
    ),
    ("Socket closed", _ASKS),
    ("Connection reset", _ASKS),
    *_HINTS,
)


@dataclass(frozen=True, eq=False)
class Line:
    """A channel, and the methods of all services by name.

    A call holds the line that it began on: where the names change, the channel before ends with
    the last of its calls.
    """

    channel: Any
    methods: Mapping[str, Callable[..., Any]]


class Connection:
    """Where calls go and what they carry.

    Args:
        addresses: Where the servers are.
        tls: How they are encrypted; None is plaintext.
        token: What proves who calls.
        options: Retries, time and headers.
    """

    def __init__(
        self, addresses: Addresses, tls: Tls | None, token: Token | None, options: Options
    ) -> None:
        check_token(token, tls, addresses, options.allow_insecure_token)
        self.addresses = addresses
        self.token = token
        self._hints = _HINTS if tls is None else _TLS_HINTS
        self.credentials = None if tls is None else tls.credentials()
        self.options = options.channel_options() + ([] if tls is None else tls.options(addresses))
        self.target = Target(addresses)

    def open(self, library: Any) -> Line:
        """A line to where the names are now, by `grpc` or `grpc.aio`."""
        target, options = self.target.name, self.options
        if self.credentials is None:
            channel = library.insecure_channel(target, options)
        else:
            channel = library.secure_channel(target, self.credentials, options)
        return Line(channel, _methods(channel))

    def closed(self, call: Call) -> ServingError:
        """The error of a call that the client's end stops, or that comes after it."""
        raised = FailedPrecondition(f"The client of {self.addresses} is closed. Make another one.")
        raised.request_id = call.invocation.request_id
        return raised

    def failure(self, call: Call, error: grpc.RpcError, *, is_closed: bool) -> ServingError:
        """The error of a call that has none of this project, by a client that is now closed."""
        if is_closed and error.code() is grpc.StatusCode.CANCELLED:
            return self.closed(call)
        raised = from_code(error.code().value[0], error.details() or "")
        words = str(raised)
        # Only closing cancels: a cancelled call met a server that was stopping.
        if isinstance(raised, (Unavailable, Cancelled)):
            hints = [hint for part, hint in self._hints if part in words]
            todo = f". {hints[0]}." if hints else ""
            raised = Unavailable(f"No scores from {self.addresses}: {words}{todo}")
        if isinstance(raised, DeadlineExceeded) and call.invocation.timeout is not None:
            raised = DeadlineExceeded(
                f"No answer from {self.addresses} within {call.invocation.timeout:g} s: {words}"
            )
        raised.request_id = call.invocation.request_id
        return raised


def _methods(channel: Any) -> Mapping[str, Callable[..., Any]]:
    return {
        **vars(prediction_service_pb2_grpc.PredictionServiceStub(channel)),
        **vars(model_service_pb2_grpc.ModelServiceStub(channel)),
        **vars(scoring_pb2_grpc.ScoringServiceStub(channel)),
        **vars(health_pb2_grpc.HealthStub(channel)),
    }
