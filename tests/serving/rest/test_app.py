"""The REST API over HTTP, with TensorFlow Serving's paths, documents, codes and messages."""

from __future__ import annotations

import base64
import contextlib
import http.client
import math
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from serving.common.errors import ResourceExhausted, Unauthenticated
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.inference.admission import Admission
from serving.rest.http_server import RestServer
from tests.serving.conftest import wait_until
from tests.serving.rest.conftest import Ask, ask_port
from tests.serving.traces import trace

MODEL = "/v1/models/tiny"
ROW = {"user": "ann", "age": 31, "history": ["i1", "i2"], "price": 1.5, "tags": [""]}
OTHER = {"user": "", "age": -(2**63), "history": ["", ""], "price": math.nan, "tags": [""]}
PREDICTIONS = [{"click": 5.0, "convert": 34.0}, {"click": 0.0, "convert": 0.0}]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (MODEL, {"instances": [ROW, OTHER]}, {"predictions": PREDICTIONS}),
        (f"{MODEL}/versions/5", {"inputs": {name: [ROW[name], OTHER[name]] for name in ROW}},
         {"outputs": {"click": [5.0, 0.0], "convert": [34.0, 0.0]}}),
        # One input and output need no name; numbers have the digits of a float32.
        (MODEL, {"signature_name": "double", "instances": [0.1, 1e10]},
         {"predictions": [0.2, 2e10]}),
        (MODEL, {"signature_name": "double", "inputs": [0.1, 1e10]}, {"outputs": [0.2, 2e10]}),
    ],
    ids=["rows", "columns", "row", "column"],
)  # fmt: skip
def test_predict_answers_in_the_form_of_the_request(
    ask: Ask, path: str, body: Any, expected: Any
) -> None:
    assert ask("POST", f"{path}:predict", body) == (200, expected)


def test_strings_may_be_base64(ask: Ask) -> None:
    user = {"b64": base64.b64encode(b"\xff\xfe").decode()}
    status, document = ask("POST", f"{MODEL}:predict", {"instances": [{**ROW, "user": user}]})
    assert (status, document["predictions"][0]["convert"]) == (200, 33.0)


def test_classify_and_regress(ask: Ask) -> None:
    examples = [{"user": "ann", "price": 1.5}, {"price": 7.0}]
    body = {"signature_name": "classify", "examples": examples}
    assert ask("POST", f"{MODEL}:classify", body) == (
        200, {"results": [[["no", -6.0], ["yes", 6.0]], [["no", -14.0], ["yes", 14.0]]]},
    )  # fmt: skip
    body = {"signature_name": "regress", "examples": examples}
    assert ask("POST", f"{MODEL}:regress", body) == (200, {"results": [6.0, 14.0]})
    body = {"signature_name": "regress", "context": {"user": "ann"}, "examples": [{"price": 1.0}]}
    assert ask("POST", f"{MODEL}:regress", body) == (200, {"results": [5.5]})


def test_rank(ask: Ask) -> None:
    body = {
        "context": {"user": "ann", "age": 31, "history": None},
        "candidates": [{"price": 1.5}, {"price": 7, "tags": []}, {"tags": ["new"]}],
    }
    answer = {
        "model": "tiny", "version": 5, "ranking": [2, 1, 0],
        "scores": {"click": [3.0, 14.0, 100.0], "convert": [34.0, 34.0, 34.0]},
    }  # fmt: skip
    assert ask("POST", f"{MODEL}:rank", body) == (200, answer)
    more = {**body, "rank_by": "convert", "top_k": 2}
    assert ask("POST", f"{MODEL}:rank", more) == (200, {**answer, "ranking": [0, 1]})


def test_status_and_metadata(ask: Ask) -> None:
    expected = {"version": "5", "state": "AVAILABLE", "status": {
        "error_code": "OK", "error_message": "",
    }}  # fmt: skip
    for path in (MODEL, f"{MODEL}/versions/5"):
        assert ask("GET", path) == (200, {"model_version_status": [expected]})
    status, document = ask("GET", f"{MODEL}/metadata")
    assert (status, document["model_spec"]["version"]) == (200, "5")
    assert list(document["metadata"]["signature_def"]) == ["signature_def"]
    signatures = document["metadata"]["signature_def"]["signature_def"]
    assert signatures["regress"]["method_name"] == "tensorflow/serving/regress"


PLAIN = {"signature_name": "double"}
PATHS = [
    ("GET", "/v1/models", 400, "Malformed request: GET /v1/models"),
    ("GET", "/v2/models/tiny", 400, "Malformed request: GET /v2/models/tiny"),
    ("GET", f"{MODEL}:predict", 400, f"Malformed request: GET {MODEL}:predict"),
    ("POST", MODEL, 400, f"Malformed request: POST {MODEL}"),
    ("POST", f"{MODEL}:train", 400, f"Malformed request: POST {MODEL}:train"),
    ("POST", f"{MODEL}:cla%C5%BF%C5%BFify", 400, "Malformed request: POST"),
    ("POST", "/v1/models/ctr:predict", 404, "Servable not found for request: Latest(ctr)"),
    ("POST", f"{MODEL}/versions/7:predict", 404, "request: Specific(tiny, 7)"),
    ("POST", f"{MODEL}/labels/canary:predict", 400, "Unrecognized servable version label: canary"),
    ("GET", "/v1/models/ctr", 404, "Could not find any versions of model ctr"),
    ("GET", f"{MODEL}/versions/{2**63}", 400, f"convert version: {2**63} to numeric."),
    ("GET", f"{MODEL}/versions/{'9' * 5000}", 400, "Failed to convert version: 999"),
]
BODIES: list[tuple[str, Any, str]] = [
    ("predict", b"{", "JSON Parse error: "),
    ("predict", {"signature_name": 3}, "'signature_name' key must be a string value."),
    ("predict", {"signature_name": "x", "instances": [1]},
     'Serving signature name: "x" not found in signature def'),
    ("predict", {}, "Missing 'inputs' or 'instances' key"),
    ("predict", {"inputs": {}, "instances": []},
     "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "),
    ("predict", {"instances": 3}, "Excepting 'instances' to be an list/array"),
    ("predict", {"instances": []}, "No values in 'instances' array"),
    ("predict", {"instances": [1]},
     "instances is a plain list, but expecting list of objects as multiple input tensors "
     "required as per tensorinfo_map"),
    ("predict", {"instances": [ROW, 3]}, "Expecting object but got list at item 1 of input list"),
    ("predict", {"instances": [{"user": "a"}]},
     "keys must be equal to: age,history,price,tags,user"),
    ("predict", {"instances": [ROW, {**ROW, "history": ["i1"]}]},
     "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
    ("predict", {"inputs": [1]},
     "inputs is a plain value/list, but expecting an object as multiple input tensors required "
     "as per tensorinfo_map"),
    ("predict", {"inputs": {"user": ["a"]}}, "Missing named input: "),
    ("predict", {**PLAIN, "inputs": [1, [2]]},
     "Encountered list at unexpected level: 1 expected < 1"),
    ("predict", {**PLAIN, "inputs": [[1], 2]},
     "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
    ("predict", {**PLAIN, "inputs": ["a"]},
     'JSON Value: "a" Type: String is not of expected type: float'),
    ("predict", {**PLAIN, "inputs": [True]},
     "JSON Value: true Type: True is not of expected type: float"),
    ("predict", {**PLAIN, "inputs": [1e39]},
     "Cannot convert JSON value: 1e+39 to float without loss of precision."),
    ("predict", {"instances": [{**ROW, "age": 1.5}]},
     "JSON Value: 1.5 Type: Number is not of expected type: int64"),
    ("predict", {"instances": [{**ROW, "user": {"b64": "?"}}]}, "Unable to base64 decode"),
    ("predict", {"instances": [{**ROW, "user": {"a": 1}}]},
     "not formatted correctly for base64 data"),
    ("predict", b'{"signature_name": "double", "inputs": ' + b"[" * 33 + b"]" * 33 + b"}",
     "A tensor has at most 32 axes. Received: 33"),
    ("classify", {}, "When method is classify, key 'examples' is expected and was not found"),
    ("regress", {"examples": 3}, "Expecting 'examples' value to be an list/array"),
    ("regress", {"examples": []}, "'examples' value is an empty array"),
    ("regress", {"examples": [3]}, "Example must be JSON object but got JSON Number"),
    ("regress", {"examples": [{"a": None}]},
     "Feature: a has element with unexpected JSON type: Null"),
    ("regress", {"examples": [{"a": [1.5, "b"]}]},
     "Unexpected element type in feature: a expecting type: float"),
    ("regress", {"signature_name": "x", "examples": [{}]},
     "No signature was found with the name: x"),
    ("rank", {"candidates": [{"prise": 1}]}, "Did you mean 'price'?"),
    ("rank", {"candidates": [{"user": "ann"}]},
     "Feature 'user' belongs to the context. Received in the candidates."),
    ("rank", {"candidates": [{"price": "high"}]},
     "Feature 'price' of the candidates: expected floats or ints. Received: strings"),
]  # fmt: skip


CASES = [(*case[:2], {"instances": [1]}, *case[2:]) for case in PATHS]
CASES += [("POST", f"{MODEL}:{method}", body, 400, words) for method, body, words in BODIES]
CASES += [
    (method, path, {"instances": [ROW]}, 400, f"Malformed request: {method} {path}")
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS")
    for path in (MODEL, f"{MODEL}/metadata", f"{MODEL}:predict", "/v1")
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), CASES)
def test_invalid_request_is_an_error_in_json(
    ask: Ask, method: str, path: str, body: Any, status: int, message: str
) -> None:
    found, document = ask(method, path, body if method != "GET" else None)
    assert (found, set(document)) == (status, {"error"})
    assert message in document["error"]


@pytest.mark.parametrize("depth", [940, 980, 990, 3000])
def test_nested_body_is_the_clients_error(ask: Ask, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for method, key in (("predict", "inputs"), ("classify", "examples"), ("rank", "context")):
        body = b'{"%s": %s}' % (key.encode(), nested)
        assert ask("POST", f"{MODEL}:{method}", body)[0] == 400


@pytest.mark.parametrize(("path", "status"), [(MODEL, 200), (f"{MODEL}:predict", 400)])
def test_head_is_get_without_its_body(
    rest: Callable[..., RestServer], path: str, status: int
) -> None:
    """The answer carries the request id."""
    connection = http.client.HTTPConnection("127.0.0.1", rest().port, timeout=10)
    connection.request("HEAD", path, b'{"instances": [1]}', {"x-request-id": "r1"})
    with contextlib.closing(connection), connection.getresponse() as response:
        assert (response.status, response.read()) == (status, b"")
        assert response.getheader("x-request-id") == "r1"


@pytest.mark.parametrize("host", ["[::", "a/b", "a?b", "é"])
def test_malformed_host_does_not_matter(ask: Ask, host: str) -> None:
    assert ask("GET", MODEL, headers={"Host": host})[0] == 200


@pytest.mark.parametrize(("length", "status"), [(9, b"504"), (10_001, b"429")])
def test_stalled_body_times_out_unless_it_is_too_large(
    rest: Callable[..., RestServer], length: int, status: bytes
) -> None:
    port = rest(timeout_seconds=0.3).port
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as stalled:
        head = "POST /v1/models/tiny:predict HTTP/1.1\r\nHost: a\r\nContent-Length: "
        stalled.sendall(f"{head}{length}\r\n\r\n{{".encode())
        assert stalled.recv(1000).startswith(b"HTTP/1.1 " + status)


def test_probes_need_no_token(rest: Callable[..., RestServer]) -> None:
    def admit(header: str | None) -> None:
        if header != "Bearer t":
            raise Unauthenticated("no")

    ready = False
    port = rest(is_ready=lambda: ready, admit=admit).port
    assert ask_port(port, "GET", "/healthz") == (200, "ok\n")
    assert ask_port(port, "GET", "/readyz") == (503, "not ready\n")
    ready = True
    assert ask_port(port, "GET", "/readyz") == (200, "ready\n")
    assert ask_port(port, "GET", MODEL) == (401, {"error": "no"})
    assert ask_port(port, "GET", MODEL, headers={"Authorization": "Bearer t"})[0] == 200


def test_metrics_page_has_the_configured_path(rest: Callable[..., RestServer]) -> None:
    port = rest(metrics=lambda: b"requests 3\n", metrics_path="/m").port
    assert ask_port(port, "GET", "/m") == (200, "requests 3\n")
    assert ask_port(rest().port, "GET", "/m")[0] == 400


def test_request_past_its_timeout_is_not_computed(rest: Callable[..., RestServer]) -> None:
    port = rest(timeout_seconds=0.0).port
    status, document = ask_port(port, "POST", f"{MODEL}:predict", {"instances": [ROW]})
    assert (status, "deadline" in document["error"]) == (504, True)


def test_observers_see_unreadable_requests_too(rest: Callable[..., RestServer]) -> None:
    seen: list[RequestTrace] = []
    server = rest(observers=[seen.append])
    ask_port(server.port, "POST", f"{MODEL}:predict", {})
    ask_port(server.port, "POST", "/v1/models/ctr:predict", {"instances": [1]})
    ask_port(server.port, "POST", f"{MODEL}:predict", {"instances": [ROW]})
    codes = [None if call.error is None else call.error.code.name for call in seen]
    assert codes == ["INVALID_ARGUMENT", "NOT_FOUND", None]
    assert [one.context.api for one in seen] == ["Predict"] * 3


def test_busy_server_refuses_scores_alone(rest: Callable[..., RestServer]) -> None:
    """Status and metadata compute nothing, and probes may ask for them."""

    class Full(Admission):
        def require_room(self, context: RequestContext) -> None:
            raise ResourceExhausted("full")

    port = rest(admission=Full(1)).port
    for path in (MODEL, f"{MODEL}/versions/5", f"{MODEL}/metadata"):
        assert ask_port(port, "GET", path)[0] == 200
    for method in ("predict", "classify", "regress", "rank"):
        assert ask_port(port, "POST", f"{MODEL}:{method}", {}) == (429, {"error": "full"})


@pytest.mark.parametrize("method", ["predict", "classify", "regress", "rank"])
def test_body_is_not_parsed_before_its_turn(rest: Callable[..., RestServer], method: str) -> None:
    """However many wait: parsing is work too."""
    admission = Admission(1)
    port = rest(admission=admission).port
    with ThreadPoolExecutor(1) as pool:
        with admission.acquire(trace()):
            waiting = pool.submit(ask_port, port, "POST", f"{MODEL}:{method}", b"{")
            wait_until(lambda: admission.waiting == 1)
            assert not waiting.done()
        assert waiting.result(10)[0] == 400


def test_request_longer_than_the_grace_gets_503(
    rest: Callable[..., RestServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = rest(grace_seconds=1.0)
    wait = {"signature_name": "wait", "instances": [3.0]}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_port, server.port, "POST", "/v1/models/tiny:predict", wait)
        time.sleep(0.5)
        server.stop()
        assert asked.result() == (503, {"error": "The server is shutting down."})
    assert not [record for record in caplog.records if record.exc_info]
