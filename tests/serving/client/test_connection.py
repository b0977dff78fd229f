"""The advice of an error, by the message of gRPC."""

from __future__ import annotations

import grpc
import pytest

from serving.client.call import Invocation, Rpc
from serving.client.connection import Connection
from serving.client.options import ClientOptions
from serving.common.addresses import Addresses

CALL = Rpc("Predict", None, Invocation(None, None, "r-1", ()))


def _error(words: str) -> grpc.RpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, words)


@pytest.mark.parametrize(
    ("words", "todo"),
    [
        (
            "errors resolving nosuch.invalid:1: [field:hostname lookup error:address lookup "
            "failed for nosuch.invalid:1: Domain name not found]",
            "Check the host name.",
        ),
        (
            "DNS resolution failed for nosuch.invalid:1: C-ares status is not ARES_SUCCESS",
            "Check the host name.",
        ),
        (
            "connections to all backends failing; last error: UNKNOWN: ipv6:%5B::1%5D:1: Failed "
            "to connect to remote host: Connection refused",
            "Check that the server runs and listens there, and whether it speaks TLS: `tls`.",
        ),
        ("The server is shutting down.", None),
    ],
)
def test_advice_if_no_server_answers(words: str, todo: str | None) -> None:
    connection = Connection(Addresses(("ctr:8500",)), None, None, ClientOptions())
    raised = connection.failure(CALL, _error(words), is_closed=False)
    end = words if todo is None else f"{words}. {todo}"
    assert str(raised) == f"Cannot reach ctr:8500: {end}"
    assert raised.request_id == "r-1"
