"""Arguments and options of a client, and the errors of invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from serving.client import AsyncClient, Client, ClientOptions
from serving.common.errors import InvalidArgument
from tests.serving.client.conftest import Connect, StartStub


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Client, {"addresses": "ctr"}, "`addresses` must be host:port, .* Received: 'ctr'"),
        (AsyncClient, {"addresses": []}, "at least one host:port"),
        (Client, {"addresses": ["a:1", "b:65536"]}, "Received: 'b:65536'"),
        (Client, {"addresses": ["a:1", "dns:///b:1"]}, "Received: 'dns:///b:1'"),
        (Client, {"addresses": "http://ctr:8501/v1"}, "must be host:port"),
        (Client, {"version": 5, "label": "stable"}, "exclude each other. Received: 5 and 'stable'"),
        (AsyncClient, {"version": "5"}, "`version` must be an integer. Received: '5'"),
        (Client, {"timeout": 0}, "`timeout` must be a positive number. Received: 0"),
        (AsyncClient, {"timeout": "5"}, "`timeout` must be a positive number. Received: '5'"),
        (ClientOptions, {"attempts": 6}, "`attempts` must be an integer from 1 to 5. Received: 6"),
        (ClientOptions, {"retry_tokens": 0.5}, "`retry_tokens` must be an integer from 1 to 1000"),
        (ClientOptions, {"max_backoff": -1}, "`max_backoff` must be a positive number"),
        (ClientOptions, {"initial_backoff": 0.001}, "must be at least 0.01 s. Received: 0.001"),
        (ClientOptions, {"keep_alive": 0}, "`keep_alive` must be a positive number"),
        (ClientOptions, {"metadata": {"X-Team": "ads"}}, "be lower-case .* Received: 'X-Team'"),
        (ClientOptions, {"metadata": {"x-team": "a\nb"}}, r"`metadata\['x-team'\]` must be print"),
        (ClientOptions, {"metadata": {"x-bin": "text"}}, r"`metadata\['x-bin'\]` must be bytes"),
        (ClientOptions, {"metadata": {"authorization": "x"}}, "leave 'authorization' to `token`"),
    ],
)
def test_invalid_client_options_are_rejected(
    kind: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        kind(**options)


def test_headers_of_the_client_and_of_the_call(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    options = ClientOptions(metadata={"x-team": "ads", "x-stage": "test"}, keep_alive=600.0)
    handle = connect(stub.address, options=options)
    handle.predict()
    handle.predict(metadata={"x-team": "shop"}, request_id="r-1")
    first, second = (seen.metadata for seen in stub.seen)
    assert (first["x-team"], first["x-stage"], len(first["x-request-id"])) == ("ads", "test", 32)
    assert (second["x-team"], second["x-stage"]) == ("shop", "test")
    assert second["x-request-id"] == "r-1"
    with pytest.raises(InvalidArgument, match="`request_id` must be printable ASCII"):
        handle.predict(request_id="r\n1")
    with pytest.raises(InvalidArgument, match="leave 'x-request-id' to `request_id`"):
        handle.predict(metadata={"x-request-id": "r"})
    with pytest.raises(InvalidArgument, match="`timeout` must be a positive number"):
        handle.predict(timeout=-1)
    with pytest.raises(TypeError, match=r"'timeot'.* timeout, request_id, metadata"):
        handle.predict(timeot=1)


def test_keep_alive_is_off_by_default() -> None:
    def chosen(options: ClientOptions) -> dict[str, int]:
        return {k: v for k, v in options.channel_options() if k.startswith("grpc.keepalive")}

    assert chosen(ClientOptions()) == {}
    assert chosen(ClientOptions(keep_alive=600.0, keep_alive_timeout=2.5)) == {
        "grpc.keepalive_time_ms": 600_000,
        "grpc.keepalive_timeout_ms": 2_500,
        "grpc.keepalive_permit_without_calls": 1,
    }


def test_infinite_times_are_accepted() -> None:
    ever = float("inf")
    options = ClientOptions(
        initial_backoff=ever, max_backoff=ever, keep_alive=ever, keep_alive_timeout=ever,
        max_reconnect_backoff=ever,
    )  # fmt: skip
    Client("127.0.0.1:9", model="m", timeout=ever, options=options).close()
