"""The advice of an error, by the message of gRPC."""

from __future__ import annotations

import grpc
import pytest

from serving.client.call import Invocation, Rpc
from serving.client.connection import Connection
from serving.client.options import ClientOptions
from serving.common.addresses import Addresses

LISTENS = "Check that the server runs and listens there, and whether it speaks TLS: `tls`."


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("errors resolving nosuch.invalid:1: Domain name not found", "Check the host name."),
        ("DNS resolution failed for nosuch.invalid:1: C-ares", "Check the host name."),
        ("last error: UNKNOWN: Failed to connect to remote host: Connection refused", LISTENS),
        (
            "connections to all backends failing; last error: ipv4:1.2.3.4:85: backend unhealthy",
            "None of the servers is ready: wait, or see `health_service` of the options.",
        ),
        ("Stream removed", None),
    ],
)
def test_error_advises_if_no_server_answers(message: str, advice: str | None) -> None:
    nothing = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, message)
    raised = _raised(error)
    todo = "" if advice is None else f"{advice} "
    assert str(raised) == f"Cannot reach ctr:8500. {todo}Reported by gRPC: {message}"
    assert raised.request_id == "r-1"


def test_message_of_a_server_is_unchanged() -> None:
    answered = grpc.aio.Metadata(("x-request-id", "r-1"))
    message = "The server is shutting down."
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), answered, message
    )
    assert str(_raised(error)) == message


def _raised(error: grpc.aio.AioRpcError) -> Exception:
    call = Rpc("Predict", None, Invocation(None, None, "r-1", ()))
    connection = Connection(Addresses(("ctr:8500",)), None, None, ClientOptions())
    return connection.failure(call, error, is_closed=False)
