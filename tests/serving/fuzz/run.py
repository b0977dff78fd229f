"""Sends malformed requests to a server, good ones beside them, and judges the answers."""

from __future__ import annotations

import contextlib
import http.client
import re
from collections import Counter
from dataclasses import dataclass

import grpc
import numpy as np
import tensorflow as tf

from tests.serving import stubs
from tests.serving.fuzz.documents import make_body
from tests.serving.fuzz.messages import mutate_fields
from tests.serving.fuzz.requests import parses, valid
from tests.serving.fuzz.values import MAX_CANDIDATES, mutate_values
from tests.serving.fuzz.wire import mutate_bytes

OPTIONS = {"max_candidates": MAX_CANDIDATES, "enable_batching": True}  # of the server
_CODES = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "RESOURCE_EXHAUSTED",
}  # fmt: skip
_STATUSES = {"200", "400", "404", "429", "501"}
_LEAKS = re.compile(r"Traceback|File \"|\.py\b|\w+Error: |NoneType|object has no attribute")
_UNREADABLE = "Malformed request: "
_IN_FLIGHT = 16


@dataclass(frozen=True)
class Case:
    """A malformed request: number `number` of a seed is always the same one.

    Args:
        number: Its number.
        method: Path of the gRPC method, or of the model's REST method.
        content: The message or the body.
        headers: The headers of a REST request; None for gRPC.
    """

    number: int
    method: str
    content: bytes
    headers: dict[str, str] | None = None


def make_case(seed: int, number: int) -> Case:
    """Returns request `number` of a seed."""
    rng = np.random.default_rng((seed, number))
    share = rng.random()
    if share < 0.3:
        method, body, headers = make_body(rng)
        return Case(number, f"/v1/models/tiny:{method}", body, headers)
    method, message = valid(rng)
    if share < 0.5:
        mutate_fields(rng, message)
    elif share < 0.8:
        mutate_values(rng, message)
    content = message.SerializeToString(deterministic=True)
    return Case(number, method, content if share < 0.8 else mutate_bytes(rng, content))


def violation(case: Case, code: str, details: str) -> str:
    """Returns the fault of an answer; nothing if the answer is proper.

    Args:
        case: The request.
        code: Name of the gRPC code, or the HTTP status.
        details: The error message.
    """
    is_proper = code in (_CODES if case.headers is None else _STATUSES)
    if case.headers is None and code == "INTERNAL":
        is_proper = details.startswith(_UNREADABLE) and not parses(case.method, case.content)
    leak = _LEAKS.search(details)
    return "" if is_proper and not leak else f"{case}: {code}: {details}"


def run(address: str, rest_port: int, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Sends requests, and a good one after every sixteen; returns the codes and the faults."""
    codes, violations = Counter[str](), []
    with grpc.insecure_channel(address, [("grpc.max_send_message_length", -1)]) as channel:
        for start in range(numbers.start, numbers.stop, _IN_FLIGHT):
            cases = [
                make_case(seed, n) for n in range(start, min(start + _IN_FLIGHT, numbers.stop))
            ]
            calls = [
                (case, channel.unary_unary(case.method).future(case.content, timeout=60.0))
                for case in cases
                if case.headers is None
            ]
            answers = [(case, *_ask(rest_port, case)) for case in cases if case.headers is not None]
            answers += [(case, call.code().name, call.details() or "") for case, call in calls]
            codes.update(code for _, code, _ in answers)
            violations += filter(None, (violation(*answer) for answer in answers))
            outputs = stubs.send(channel, stubs.predict()).outputs
            np.testing.assert_array_equal(tf.make_ndarray(outputs["convert"]), [34.0, 0.0])
    return codes, violations


def _ask(port: int, case: Case) -> tuple[str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", case.method, case.content, case.headers or {})
        response = connection.getresponse()
        return str(response.status), response.read().decode() if response.status != 200 else ""
