"""Rejected requests are in the access log and the request count."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest

from serving.common.errors import ResourceExhausted
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.config.files import METRICS_PATH
from serving.config.server_config import ServerConfig
from serving.observability.access_log import log_access
from serving.server.server import Server, create_server
from tests.serving.commands import free_port
from tests.serving.conftest import wait_until
from tests.serving.exports import install
from tests.serving.rest.conftest import ask_port
from tests.serving.stubs import predict, send, status

_COUNT = re.compile(
    r'^:tensorflow:serving:request_count\{model_name="(.*)",status="(.*)"\} (\S+)$', re.M
)


class _Observed:
    """A server that serves one request at a time, and the traces that its observers received."""

    def __init__(self, server: Server, address: str) -> None:
        self.server, self.address = server, address
        self.calls: list[RequestTrace] = []
        self.returned = ""  # request id of the last rejection
        self.trailers: dict[str, str] = {}  # of the last rejection
        server.service._observers += (self.calls.append, log_access)

    def ask(self, request: object, token: str = "secret", request_id: str = "r1") -> str:
        """Returns the code of an answer by gRPC."""
        metadata = [("authorization", f"Bearer {token}"), ("x-request-id", request_id)]
        with grpc.insecure_channel(self.address) as channel:
            try:
                send(channel, request, metadata=metadata)
            except grpc.RpcError as error:
                self.trailers = dict(error.trailing_metadata())
                self.returned = self.trailers["x-request-id"]
                return str(error.code().name)
        return "OK"

    def post(self, path: str, body: object, token: str = "secret") -> int:
        """Returns the status of an answer by REST."""
        headers = {"authorization": f"Bearer {token}"}
        return ask_port(self.server.config.rest_api_port, "POST", path, body, headers)[0]

    def counted(self) -> dict[tuple[str, str], float]:
        """Returns `request_count`, by model and code."""
        page = ask_port(self.server.config.rest_api_port, "GET", METRICS_PATH)[1]
        return {(model, code): float(count) for model, code, count in _COUNT.findall(page)}


@pytest.fixture
def seen(tmp_path: Path, twofold: Path) -> Iterator[_Observed]:
    install(twofold, tmp_path / "tiny", 5)
    (tmp_path / "tokens").write_text("secret\n")
    (tmp_path / "monitoring").write_text("prometheus_config { enable: true }")
    config = ServerConfig(
        str(tmp_path / "tiny"), port=0, rest_api_port=free_port(), grace_seconds=5.0,
        max_concurrent_requests=1, auth_token_file=str(tmp_path / "tokens"),
        monitoring_config_file=str(tmp_path / "monitoring"),
    )  # fmt: skip
    server, port = create_server(config)
    server.start()
    yield _Observed(server, f"127.0.0.1:{port}")
    server.stop()


def _rejected(calls: list[RequestTrace]) -> Counter[tuple[str, str, str, str]]:
    return Counter(
        (call.context.entrypoint, call.context.api, call.model, call.error.code.name)
        for call in calls
        if call.error is not None
    )


def _is_full(server: Server) -> bool:
    try:
        server.service.admission.require_room(RequestContext("Predict"))
    except ResourceExhausted:
        return True
    return False


def test_requests_without_a_token(seen: _Observed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "serving.access")
    assert seen.ask(predict(), "guess", "r17") == "UNAUTHENTICATED"
    assert seen.returned == "r17"
    assert seen.ask(status(), "guess") == "UNAUTHENTICATED"
    assert seen.post("/v1/models/tiny:predict", {}, "guess") == 401
    assert seen.post("/v1/models/made-up:predict", {}, "guess") == 401
    assert seen.post("/anything", {}, "guess") == 401
    code = "UNAUTHENTICATED"
    assert _rejected(seen.calls) == {
        ("GRPC", "Predict", "", code): 1,
        ("GRPC", "GetModelStatus", "", code): 1,
        ("REST", "Predict", "tiny", code): 1,
        ("REST", "Predict", "made-up", code): 1,
        ("REST", "", "", code): 1,
    }
    assert seen.counted() == {("tiny", code): 1, ("", code): 4}, "a made-up name is no label"
    line = json.loads(caplog.records[0].message)
    assert (line["request_id"], line["code"], line["model"]) == ("r17", code, "")
    assert line["error"] == "Invalid token."


def test_requests_over_the_limit(seen: _Observed) -> None:
    wait = predict(inputs={"seconds": np.float32([1.5])}, signature_name="wait")
    body = {"signature_name": "wait", "instances": [1.5]}
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(seen.ask, wait)
        wait_until(lambda: _is_full(seen.server))
        assert seen.ask(predict()) == "RESOURCE_EXHAUSTED"
        assert int(seen.trailers["grpc-retry-pushback-ms"]) >= 1
        assert seen.ask(status()) == "OK", "what computes nothing is answered"
        connection = http.client.HTTPConnection("127.0.0.1", seen.server.config.rest_api_port)
        headers = {"authorization": "Bearer secret"}
        connection.request("POST", "/v1/models/tiny:predict", json.dumps(body), headers)
        with contextlib.closing(connection), connection.getresponse() as response:
            assert response.status == 429
            assert int(response.getheader("retry-after") or 0) >= 1
        assert busy.result() == "OK"
    assert _rejected(seen.calls) == {
        ("GRPC", "Predict", "", "RESOURCE_EXHAUSTED"): 1,  # its message was not read
        ("REST", "Predict", "tiny", "RESOURCE_EXHAUSTED"): 1,
    }
    assert seen.counted()["tiny", "RESOURCE_EXHAUSTED"] == 1
    assert seen.counted()["", "RESOURCE_EXHAUSTED"] == 1


def test_requests_during_the_drain(seen: _Observed) -> None:
    seen.server.listener.is_draining = True
    assert seen.ask(predict()) == "UNAVAILABLE"
    assert seen.post("/v1/models/tiny:classify", {}) == 503
    seen.server.listener.is_draining = False
    assert _rejected(seen.calls) == {
        ("GRPC", "Predict", "", "UNAVAILABLE"): 1,
        ("REST", "Classify", "tiny", "UNAVAILABLE"): 1,
    }
    assert seen.counted() == {("tiny", "UNAVAILABLE"): 1, ("", "UNAVAILABLE"): 1}
