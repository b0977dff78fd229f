"""The REST API through HTTP, with TensorFlow Serving's paths, forms, codes and words."""

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

from serving.common.errors import Unauthenticated
from serving.common.request_trace import RequestTrace
from serving.rest.server import RestServer
from tests.serving.rest.conftest import Ask, ask_port

MODEL = "/v1/models/tiny"
ROW = {"user": "ann", "age": 31, "history": ["i1", "i2"], "price": 1.5, "tags": [""]}
OTHER = {"user": "", "age": -(2**63), "history": ["", ""], "price": math.nan, "tags": [""]}
PREDICTIONS = [{"click": 5.0, "convert": 34.0}, {"click": 0.0, "convert": 0.0}]


def test_rows_give_rows(ask: Ask) -> None:
    status, document = ask("POST", f"{MODEL}:predict", {"instances": [ROW, OTHER]})
    assert (status, document) == (200, {"predictions": PREDICTIONS})


def test_columns_give_columns(ask: Ask) -> None:
    columns = {name: [ROW[name], OTHER[name]] for name in ROW}
    status, document = ask("POST", f"{MODEL}/versions/5:predict", {"inputs": columns})
    expected = {task: [row[task] for row in PREDICTIONS] for task in ("click", "convert")}
    assert (status, document) == (200, {"outputs": expected})


def test_a_single_input_and_output_need_no_name(ask: Ask) -> None:
    for form, result in (("instances", "predictions"), ("inputs", "outputs")):
        body = {"signature_name": "double", form: [0.1, 1e10]}
        status, document = ask("POST", f"{MODEL}:predict", body)
        assert (status, document) == (200, {result: [0.2, 2e10]}), "digits of a float32"


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
        "context": {"user": {"strings": {"values": ["ann"]}}, "age": {"ints": {"values": [31]}}},
        "candidates": {"price": {"floats": {"values": [1.5, 7]}}},
        "rank_by": "click",
    }
    status, document = ask("POST", f"{MODEL}:rank", body)
    assert (status, document["ranking"]) == (200, [1, 0])
    assert document["scores"]["click"] == {"values": [3.0, 14.0]}
    assert document["model_spec"]["version"] == "5"


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


def test_the_request_id_comes_back(rest: Callable[..., RestServer]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", rest().port, timeout=10)
    connection.request("GET", MODEL, headers={"x-request-id": "r1"})
    assert connection.getresponse().getheader("x-request-id") == "r1"
    connection.close()


PLAIN = {"signature_name": "double"}
ERRORS: dict[str, tuple[str, str, Any, int, str]] = {
    "no-model": ("GET", "/v1/models", None, 400, "Malformed request: GET /v1/models"),
    "other-path": ("GET", "/v2/models/tiny", None, 400, "Malformed request: GET /v2/models/tiny"),
    "get-predict": (
        "GET", f"{MODEL}:predict", None, 400, f"Malformed request: GET {MODEL}:predict",
    ),
    "post-status": ("POST", MODEL, {}, 400, f"Malformed request: POST {MODEL}"),
    "unknown-method": ("POST", f"{MODEL}:train", {}, 400, f"Malformed request: POST {MODEL}:train"),
    "unknown-model": (
        "POST", "/v1/models/ctr:predict", {"instances": [1]}, 404,
        "Servable not found for request: Latest(ctr)",
    ),
    "unknown-version": (
        "POST", f"{MODEL}/versions/7:predict", {"instances": [1]}, 404,
        "Servable not found for request: Specific(tiny, 7)",
    ),
    "huge-version": (
        "GET", f"{MODEL}/versions/{2**63}", None, 400,
        f"Failed to convert version: {2**63} to numeric.",
    ),
    "unknown-label": (
        "POST", f"{MODEL}/labels/canary:predict", {"instances": [1]}, 400,
        "Unrecognized servable version label: canary",
    ),
    "status-unknown-model": (
        "GET", "/v1/models/ctr", None, 404, "Could not find any versions of model ctr",
    ),
    "empty": ("POST", f"{MODEL}:predict", b"", 400, "JSON Parse error: The document is empty"),
    "no-json": ("POST", f"{MODEL}:predict", b"{", 400, "JSON Parse error: "),
    "deep": ("POST", f"{MODEL}:predict", b"[" * 9000, 400, "JSON Parse error: "),
    "no-object": ("POST", f"{MODEL}:predict", [1], 400, "JSON Value: [1] Is not object"),
    "signature-number": (
        "POST", f"{MODEL}:predict", {"signature_name": 3}, 400,
        "'signature_name' key must be a string value.",
    ),
    "unknown-signature": (
        "POST", f"{MODEL}:predict", {"signature_name": "x", "instances": [1]}, 400,
        'Serving signature name: "x" not found in signature def',
    ),
    "neither": ("POST", f"{MODEL}:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    "both": (
        "POST", f"{MODEL}:predict", {"inputs": {}, "instances": []}, 400,
        "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
    ),
    "instances-no-list": (
        "POST", f"{MODEL}:predict", {"instances": 3}, 400,
        "Excepting 'instances' to be an list/array",
    ),
    "no-instances": (
        "POST", f"{MODEL}:predict", {"instances": []}, 400, "No values in 'instances' array",
    ),
    "plain-instances": (
        "POST", f"{MODEL}:predict", {"instances": [1]}, 400,
        "instances is a plain list, but expecting list of objects as multiple input tensors "
        "required as per tensorinfo_map",
    ),
    "mixed-instances": (
        "POST", f"{MODEL}:predict", {"instances": [ROW, 3]}, 400,
        "Expecting object but got list at item 1 of input list",
    ),
    "instance-without-input": (
        "POST", f"{MODEL}:predict", {"instances": [{"user": "a"}]}, 400,
        "keys must be equal to: age,history,price,tags,user",
    ),
    "unlike-instances": (
        "POST", f"{MODEL}:predict", {"instances": [ROW, {**ROW, "history": ["i1"]}]}, 400,
        "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
    ),
    "plain-inputs": (
        "POST", f"{MODEL}:predict", {"inputs": [1]}, 400,
        "inputs is a plain value/list, but expecting an object as multiple input tensors required "
        "as per tensorinfo_map",
    ),
    "missing-input": (
        "POST", f"{MODEL}:predict", {"inputs": {"user": ["a"]}}, 400,
        "Missing named input: ",
    ),
    "too-deep": (
        "POST", f"{MODEL}:predict", {**PLAIN, "inputs": [1, [2]]}, 400,
        "Encountered list at unexpected level: 1 expected < 1",
    ),
    "too-flat": (
        "POST", f"{MODEL}:predict", {**PLAIN, "inputs": [[1], 2]}, 400,
        "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
    ),
    "wrong-type": (
        "POST", f"{MODEL}:predict", {**PLAIN, "inputs": ["a"]}, 400,
        'JSON Value: "a" Type: String is not of expected type: float',
    ),
    "bool-for-number": (
        "POST", f"{MODEL}:predict", {**PLAIN, "inputs": [True]}, 400,
        "JSON Value: true Type: True is not of expected type: float",
    ),
    "lossy": (
        "POST", f"{MODEL}:predict", {**PLAIN, "inputs": [1e39]}, 400,
        "Cannot convert JSON value: 1e+39 to float without loss of precision.",
    ),
    "fraction-for-integer": (
        "POST", f"{MODEL}:predict", {"instances": [{**ROW, "age": 1.5}]}, 400,
        "JSON Value: 1.5 Type: Number is not of expected type: int64",
    ),
    "no-base64": (
        "POST", f"{MODEL}:predict", {"instances": [{**ROW, "user": {"b64": "?"}}]}, 400,
        "Unable to base64 decode",
    ),
    "object-for-string": (
        "POST", f"{MODEL}:predict", {"instances": [{**ROW, "user": {"a": 1}}]}, 400,
        "not formatted correctly for base64 data",
    ),
    "no-examples": (
        "POST", f"{MODEL}:classify", {}, 400,
        "When method is classify, key 'examples' is expected and was not found",
    ),
    "examples-no-list": (
        "POST", f"{MODEL}:regress", {"examples": 3}, 400,
        "Expecting 'examples' value to be an list/array",
    ),
    "empty-examples": (
        "POST", f"{MODEL}:regress", {"examples": []}, 400, "'examples' value is an empty array",
    ),
    "example-no-object": (
        "POST", f"{MODEL}:regress", {"examples": [3]}, 400,
        "Example must be JSON object but got JSON Number",
    ),
    "example-null": (
        "POST", f"{MODEL}:regress", {"examples": [{"a": None}]}, 400,
        "Feature: a has element with unexpected JSON type: Null",
    ),
    "example-mixed": (
        "POST", f"{MODEL}:regress", {"examples": [{"a": [1.5, "b"]}]}, 400,
        "Unexpected element type in feature: a expecting type: float",
    ),
    "regress-unknown-signature": (
        "POST", f"{MODEL}:regress", {"signature_name": "x", "examples": [{}]}, 400,
        "No signature was found with the name: x",
    ),
    "no-rank": (
        "POST", f"{MODEL}:rank", {"context": 3}, 400, "Not a RankRequest in JSON: ",
    ),
    "half-a-pair": (
        "POST", f"{MODEL}:regress", {"examples": [{"user": "\ud800"}]}, 400, "JSON Parse error: ",
    ),
    "half-a-pair-name": (
        "POST", f"{MODEL}:rank", {"candidates": {"price": {"\ud800": 1}}}, 400,
        "JSON Parse error: ",
    ),
    "half-a-pair-bytes": (
        "POST", f"{MODEL}:predict", b'{"\xed\xa0\x80": 1}', 400,
        "JSON Parse error: not valid UTF-8",
    ),
    "other-letters": (
        "POST", f"{MODEL}:predict", b"\x8b", 400, "JSON Parse error: not valid UTF-8",
    ),
    "too-many-axes": (
        "POST", f"{MODEL}:predict",
        b'{"signature_name": "double", "inputs": ' + b"[" * 33 + b"]" * 33 + b"}", 400,
        "A tensor has at most 32 axes. Received: 33",
    ),
    "nested": (
        "POST", f"{MODEL}:predict", b'{"inputs": ' + b"[" * 3000 + b"]" * 3000 + b"}", 400,
        "JSON Parse error: maximum recursion depth",
    ),
    "long-version": (
        "GET", f"{MODEL}/versions/{'9' * 5000}", None, 400, "Failed to convert version: 999",
    ),
    "letter-of-no-method": (
        "POST", f"{MODEL}:cla%C5%BF%C5%BFify", {}, 400, "Malformed request: POST",
    ),
    "float-of-no-size": (
        "POST", f"{MODEL}:rank", {"candidates": {"price": {"floats": {"values": [10**400]}}}}, 400,
        "Not a RankRequest in JSON: ",
    ),
    "too-large": ("POST", f"{MODEL}:predict", b" " * 20_000, 429, "larger than 10000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_codes_and_words(ask: Ask, case: str) -> None:
    method, path, body, status, words = ERRORS[case]
    found, document = ask(method, path, body)
    assert (found, set(document)) == (status, {"error"})
    assert words in document["error"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", [MODEL, f"{MODEL}/metadata", f"{MODEL}:predict", "/v1"])
def test_other_methods_are_malformed_requests(ask: Ask, method: str, path: str) -> None:
    expected = {"error": f"Malformed request: {method} {path}"}
    assert ask(method, path, {"instances": [ROW]}) == (400, expected)


@pytest.mark.parametrize("depth", range(900, 1000, 9))
def test_no_depth_is_a_fault(ask: Ask, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for body in (nested, b'{"inputs": ' + nested + b"}", b'{"examples": ' + nested + b"}"):
        for method in ("predict", "classify", "rank"):
            assert ask("POST", f"{MODEL}:{method}", body)[0] == 400


def test_a_column_that_is_null_was_not_sent(ask: Ask) -> None:
    price = {"price": {"floats": {"values": [1.5, 2.5]}}}
    body = {"context": {"user": None}, "candidates": {**price, "tags": None}}
    assert ask("POST", f"{MODEL}:rank", body) == ask("POST", f"{MODEL}:rank", {"candidates": price})


@pytest.mark.parametrize(("path", "status"), [(MODEL, 200), (f"{MODEL}:predict", 400)])
def test_head_is_get_without_its_body(
    rest: Callable[..., RestServer], path: str, status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", rest().port, timeout=10)
    connection.request("HEAD", path, b'{"instances": [1]}')
    with contextlib.closing(connection), connection.getresponse() as response:
        assert (response.status, response.read()) == (status, b"")


@pytest.mark.parametrize("host", ["[::", "a/b", "a?b", "é"])
def test_the_path_does_not_depend_on_the_host(ask: Ask, host: str) -> None:
    assert ask("GET", MODEL, headers={"Host": host})[0] == 200


def test_a_body_that_never_ends_is_not_waited_for(rest: Callable[..., RestServer]) -> None:
    port = rest(timeout_seconds=0.3).port
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as stalled:
        stalled.sendall(
            b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
        )
        assert stalled.recv(1000).startswith(b"HTTP/1.1 504 ")


def test_probes(rest: Callable[..., RestServer]) -> None:
    ready = False
    port = rest(is_ready=lambda: ready).port
    assert ask_port(port, "GET", "/healthz") == (200, "ok\n")
    assert ask_port(port, "GET", "/readyz") == (503, "not ready\n")
    ready = True
    assert ask_port(port, "GET", "/readyz") == (200, "ready\n")


def test_metrics_are_where_they_are_wanted(rest: Callable[..., RestServer]) -> None:
    port = rest(metrics=lambda: b"requests 3\n", metrics_path="/m").port
    assert ask_port(port, "GET", "/m") == (200, "requests 3\n")
    assert ask_port(rest().port, "GET", "/m")[0] == 400


def test_who_may_not_ask_gets_no_answer(rest: Callable[..., RestServer]) -> None:
    def admit(header: str | None) -> None:
        if header != "Bearer t":
            raise Unauthenticated("no")

    port = rest(admit=admit).port
    assert ask_port(port, "GET", MODEL) == (401, {"error": "no"})
    assert ask_port(port, "GET", MODEL, headers={"Authorization": "Bearer t"})[0] == 200
    assert ask_port(port, "GET", "/healthz")[0] == 200


def test_what_takes_too_long_is_not_waited_for(rest: Callable[..., RestServer]) -> None:
    port = rest(timeout_seconds=0.0).port
    status, document = ask_port(port, "POST", f"{MODEL}:predict", {"instances": [ROW]})
    assert (status, "deadline" in document["error"]) == (504, True)


def test_a_request_that_is_none_is_seen_too(rest: Callable[..., RestServer]) -> None:
    seen: list[RequestTrace] = []
    server = rest(observers=[seen.append])
    ask_port(server.port, "POST", f"{MODEL}:predict", {})
    ask_port(server.port, "POST", "/v1/models/ctr:predict", {"instances": [1]})
    ask_port(server.port, "POST", f"{MODEL}:predict", {"instances": [ROW]})
    codes = [None if call.error is None else call.error.code.name for call in seen]
    assert codes == ["INVALID_ARGUMENT", "NOT_FOUND", None]
    assert [one.context.api for one in seen] == ["Predict"] * 3


def test_a_request_that_outlives_the_grace_is_told_so(
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
