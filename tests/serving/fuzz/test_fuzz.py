"""A short run of `python -m tests.serving.fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.commands import free_port
from tests.serving.conftest import StartServer
from tests.serving.fuzz.run import OPTIONS, Case, make_case, run, violation

REQUESTS = range(2500)
PREDICT = "/tensorflow.serving.PredictionService/Predict"


def test_malformed_requests_are_answered_properly(
    base_path: Path, start_server: StartServer
) -> None:
    port = free_port()
    _, address = start_server(base_path, rest_api_port=port, **OPTIONS)
    codes, violations = run(address, port, 1, REQUESTS)
    assert violations == []
    assert codes.total() == len(REQUESTS)
    assert {"OK", "INVALID_ARGUMENT", "INTERNAL", "200", "400"} <= codes.keys()


def test_number_of_a_seed_is_always_the_same_request() -> None:
    cases = [make_case(3, number) for number in range(0, 600, 7)]
    assert cases == [make_case(3, number) for number in range(0, 600, 7)]
    assert cases != [make_case(4, number) for number in range(0, 600, 7)]


@pytest.mark.parametrize(
    ("headers", "code", "details", "is_proper"),
    [
        (None, "INVALID_ARGUMENT", "Missing ModelSpec", True),
        (None, "UNKNOWN", "Exception calling application", False),
        (None, "INTERNAL", "ValueError: a", False),
        (None, "INTERNAL", "Malformed request: Error parsing", False),  # b"" is a message
        (None, "DEADLINE_EXCEEDED", "", False),
        (None, "INVALID_ARGUMENT", "TypeError: a", False),
        ({}, "400", "", True),
        ({}, "500", "", False),
    ],
)
def test_improper_answers_are_found(
    headers: dict[str, str] | None, code: str, details: str, is_proper: bool
) -> None:
    assert (violation(Case(0, PREDICT, b"", headers), code, details) == "") == is_proper
