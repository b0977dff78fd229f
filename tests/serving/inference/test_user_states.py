"""With the states of users, answers are those of the whole histories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recsys_attn.models import sasrec
from recsys_attn.models.sequence_model import SequenceModel
from recsys_attn.schema import Schema
from serving.common.errors import FailedPrecondition, InvalidArgument
from serving.common.request import InferenceRequest, ModelRef
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
from serving.inference.service import replay
from serving.models.model import Model
from serving.server.loader import Loader, LoadOptions
from tests.serving.rank_messages import make_rank_request
from tests.serving.traces import trace
from tests.support.next_exports import LONGEST, NAMES, histories, write_next_export

CANDIDATES = ["i4", "i5", "i28"]
USERS = 3
Load = Callable[..., Model]


def _small(schema: Schema) -> SequenceModel:
    return sasrec(schema, width=8, num_layers=1, num_heads=2, positions="rotary")


def _from_end(schema: Schema) -> SequenceModel:
    return sasrec(schema, width=8, num_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1 and 2 of a model that steps, with other weights, and one that does not."""
    folder = tmp_path_factory.mktemp("states")
    write_next_export(folder / "next", 1, make=_small)
    write_next_export(folder / "next", 2, make=_small, seed=5)
    write_next_export(folder / "whole", make=_from_end)
    return folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> Model:
    return Loader(LoadOptions(warmup_iterations=0))("next", 1, folder / "next" / "1")


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    """Version 1 with states, for all tests: the users of each are others."""
    return _load(folder)


def _load(folder: Path, version: int = 1, batching: BatchingParameters | None = None) -> Model:
    options = LoadOptions(warmup_iterations=0, user_states=USERS, batching=batching)
    return Loader(options)("next", version, folder / "next" / str(version))


def _rank(
    model: Model, rows: list[list[str]], users: list[str] | None = None
) -> tuple[np.ndarray, RequestTrace]:
    inputs = {"item": histories(*rows), "candidate": histories(*[CANDIDATES] * len(rows))}
    if users is not None:
        inputs["user"] = _named(users)
    record = trace()
    return model.signature("rank").run(inputs, ("score",), record)["score"], record


def _named(users: list[str]) -> np.ndarray:
    """Users of the running test; no name stays none."""
    test = os.environ["PYTEST_CURRENT_TEST"]
    return np.array([f"{test} {user}".encode() if user else b"" for user in users], object)


def _check(model: Model, plain: Model, rows: list[list[str]], users: list[str], hits: int) -> None:
    found, record = _rank(model, rows, users)
    np.testing.assert_allclose(found, _rank(plain, rows)[0], atol=1e-5)
    assert (record.user_hits, record.user_misses) == (hits, len(rows) - hits)


def test_new_events_of_a_known_user_are_a_hit(model: Model, plain: Model) -> None:
    events = ["i3", "i1", "unknown", "i4", "i1", "i9"]
    for count, hits in ((1, 0), (2, 1), (2, 1), (5, 1), (6, 1)):
        _check(model, plain, [events[:count]], ["u"], hits)
    _check(model, plain, [[]], ["v"], hits=0)
    _check(model, plain, [["i7"]], ["v"], hits=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changed",
    [
        ["i1", "i2"],
        ["i1", "i2", "i4"],
        ["i2", "i1", "i3", "i5"],
        ["i1", "i2", "i3 ", "i5"],
        ["i1i2", "", "i3", "i5"],
        ["i2", "i3", "i5"],
        [],
    ],
    ids=["shorter", "other last", "other order", "other name", "joined", "window", "none"],
)
def test_a_changed_past_is_computed_whole(model: Model, plain: Model, changed: list[str]) -> None:
    _check(model, plain, [["i1", "i2", "i3"]], ["u"], hits=0)
    _check(model, plain, [changed], ["u"], hits=0)
    _check(model, plain, [[*changed, "i8"]], ["u"], hits=1)


def test_known_and_new_users_share_a_request(model: Model, plain: Model) -> None:
    _check(model, plain, [["i1"], ["i2", "i3"]], ["u", "v"], hits=0)
    rows = [["i2", "i3", "i4", "i5"], ["i9"], ["i1"]]
    _check(model, plain, rows, ["v", "w", "u"], hits=2)


def test_a_user_twice_in_a_request_is_computed_whole(model: Model, plain: Model) -> None:
    _check(model, plain, [["i1", "i2"]], ["u"], hits=0)
    rows = [["i1", "i2", "i3"], ["i1", "i2", "i4"]]
    _check(model, plain, rows, ["u", "u"], hits=0)
    _check(model, plain, [["i1", "i2", "i5"]], ["u"], hits=1)


def test_the_least_recent_user_leaves(model: Model, plain: Model) -> None:
    for user, hits in (("a", 0), ("b", 0), ("c", 0), ("a", 1), ("d", 0)):
        _check(model, plain, [["i1"]], [user], hits)
    for user, hits in (("a", 1), ("b", 0)):
        _check(model, plain, [["i1", "i2"]], [user], hits)


def test_new_events_of_a_longer_history_are_computed_whole(model: Model, plain: Model) -> None:
    events = [f"i{n}" for n in range(LONGEST + 3)]
    _check(model, plain, [events[:LONGEST]], ["u"], hits=0)
    _check(model, plain, [events[: LONGEST + 1]], ["u"], hits=0)
    _check(model, plain, [events], ["u"], hits=0)


def test_another_version_has_states_of_its_own(folder: Path, model: Model, plain: Model) -> None:
    second = _load(folder, version=2)
    _check(model, plain, [["i1", "i2"]], ["u"], hits=0)
    found, record = _rank(second, [["i1", "i2", "i3"]], ["u"])
    assert record.user_hits == 0
    np.testing.assert_allclose(found, _rank(second, [["i1", "i2", "i3"]])[0], atol=1e-5)
    assert np.abs(found - _rank(plain, [["i1", "i2", "i3"]])[0]).max() > 0.01


def test_a_state_that_another_version_gave_has_no_scores(folder: Path, plain: Model) -> None:
    second = _load(folder, version=2)
    events = {"item": histories(["i1", "i2"])}
    for model, known in ((plain, False), (second, True)):
        state = model.signature("start").run(events, ("state",), trace())["state"]
        inputs = {"state": state, "candidate": histories(CANDIDATES)}
        found = second.signature("rank_from_state").run(inputs, ("score",), trace())["score"]
        np.testing.assert_array_equal(np.isfinite(found), known)


@pytest.mark.parametrize("signature", ["rank", "next_items", "serving_default"])
def test_request_without_events_is_refused(model: Model, signature: str) -> None:
    """Also of a user whose state is known; beside a user with events it is computed."""
    _rank(model, [["i1", "i2"]], ["u"])
    other = "candidate" if signature == "rank" else "exclude"
    outputs = ("score",) if signature == "rank" else ("items", "scores")

    def ask(*rows: list[str]) -> dict[str, np.ndarray]:
        users = _named(["u", "v"][: len(rows)])
        inputs = {"item": histories(*rows), other: histories(*rows), "user": users}
        asked = InferenceRequest(ModelRef("next"), signature, inputs, outputs)
        return model.compute(asked, trace())

    with pytest.raises(InvalidArgument, match=r"Feature 'item': expected the events .*: none"):
        ask([])
    with pytest.raises(InvalidArgument, match="show the most popular items"):
        ask([""], [])
    assert len(ask(["i1", "i2", "i3"], [])[outputs[-1]]) == 2


def test_rank_without_events_is_rejected_for_a_user(model: Model) -> None:
    sent = make_rank_request("next", {"user": "u"}, [{"candidate": "i4"}])
    with pytest.raises(InvalidArgument, match="Feature 'item': expected the events of the user"):
        replay(model, sent)


@pytest.mark.parametrize("signature", ["next_items", "serving_default"])
def test_next_items_leave_out_the_history(model: Model, plain: Model, signature: str) -> None:
    for count, hits in ((2, 0), (4, 1)):
        rows = histories(["i3", "i1", "i4", "i5"][:count], ["i7", "unknown", "i8"][:count])
        inputs = {"item": rows, "exclude": histories(["i2"], ["i9", "i0"])}
        named = {**inputs, "user": _named(["u", "v"])}
        record = trace()
        found = model.signature(signature).run(named, ("items", "scores"), record)
        expected = plain.signature(signature).run(inputs, ("items", "scores"), trace())
        np.testing.assert_array_equal(found["items"], expected["items"])
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-5)
        assert record.user_hits == 2 * hits
        assert record.rows == 2


def test_random_requests_are_answered_as_without_states(folder: Path, plain: Model) -> None:
    """In batches; users go on, forget, change and come twice."""
    model = _load(folder, batching=BatchingParameters())
    rng = np.random.default_rng(11)
    pasts: dict[str, list[str]] = {user: [] for user in "abcde"}
    hits = 0
    for _ in range(61):
        users = rng.choice(list(pasts), rng.integers(1, 4)).tolist()
        for user in users:
            new = rng.choice(NAMES, rng.integers(0, 3)).tolist()
            kept = pasts[user] if rng.random() < 0.8 else pasts[user][: rng.integers(0, 3)]
            pasts[user] = [*kept, *new][: LONGEST + 2]
        rows = [pasts[user] for user in users]
        found, record = _rank(model, rows, users)
        np.testing.assert_allclose(found, _rank(plain, rows)[0], atol=1e-5)
        hits += record.user_hits
    assert 11 < hits < 101


def test_requests_without_a_user_count_as_before(model: Model, plain: Model) -> None:
    for users in (None, [""]):
        found, record = _rank(model, [["i1", "i2"]], users)
        np.testing.assert_allclose(found, _rank(plain, [["i1", "i2"]])[0], atol=1e-6)
        assert (record.user_hits, record.user_misses) == (0, 0)


def test_other_models_take_no_user(
    folder: Path, plain: Model, caplog: pytest.LogCaptureFixture
) -> None:
    options = LoadOptions(warmup_iterations=0, user_states=USERS)
    whole = Loader(options)("whole", 1, folder / "whole" / "1")
    assert "no user states for whole version 1: " in caplog.text
    assert "count from the latest event" in caplog.text
    for model in (plain, whole):
        assert "user" not in model.signature("rank").input_specs
        with pytest.raises((InvalidArgument, FailedPrecondition)):
            _rank(model, [["i1"]], ["u"])
