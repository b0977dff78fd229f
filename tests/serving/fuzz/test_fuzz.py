"""A few thousand malformed requests, as `python -m tests.serving.fuzz` sends many more of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.serving.fuzz.cases import Case, Outcome, Way
from tests.serving.fuzz.generate import make_case
from tests.serving.fuzz.process import install_models, start_server
from tests.serving.fuzz.run import Run
from tests.serving.fuzz.verdict import violation

REQUESTS = range(1500)
SEED = 1


def test_the_server_withstands_malformed_requests(tmp_path: Path, twofold: Path) -> None:
    base_path = install_models(twofold, tmp_path / "models")
    with start_server(base_path, tmp_path / "server") as server:
        seen = Run(server, str(base_path), SEED, lambda: None)(REQUESTS, good_limit=20.0)
    assert seen.violations == []
    assert seen.counts.total() == len(REQUESTS)
    assert seen.good
    assert {"OK", "INVALID_ARGUMENT", "200", "400"} <= {code for _, code in seen.counts}


def test_a_number_is_always_the_same_request() -> None:
    numbers = range(0, 600, 7)
    cases = [make_case(3, number, "/models") for number in numbers]
    assert cases == [make_case(3, number, "/models") for number in numbers]
    assert cases != [make_case(4, number, "/models") for number in numbers]
    assert set(Counter(case.way for case in cases)) == set(Way)


def test_what_no_caller_should_hear_is_found() -> None:
    call = Case("a kind", Way.GRPC, b"", "/tensorflow.serving.PredictionService/Predict")
    asked = Case("a kind", Way.HTTP, b"")
    poured = Case("a kind", Way.TO_GRPC, b"")
    wrong = [
        Outcome(call, "UNKNOWN", "Exception calling application"),
        Outcome(call, "INTERNAL", "ValueError: a"),
        Outcome(call, "INTERNAL", "Exception deserializing request!"),  # these bytes are a message
        Outcome(call, "DEADLINE_EXCEEDED"),
        Outcome(call, "UNAVAILABLE", "Socket closed"),
        Outcome(call, "INVALID_ARGUMENT", "TypeError: a"),
        Outcome(asked, "500"),
        Outcome(asked, "no answer"),
        Outcome(asked, "closed"),
        Outcome(poured, "INTERNAL", "Invalid metadata"),
    ]
    right = [
        Outcome(call, "INVALID_ARGUMENT", "Missing ModelSpec"),
        Outcome(asked, "400"),
        Outcome(poured, "INTERNAL", "Error parsing 'te' metadata"),
    ]
    assert [outcome for outcome in wrong if not violation(outcome)] == []
    assert [violation(outcome) for outcome in right] == [""] * len(right)
