"""From the encoded histories of a user, scores are those of the whole histories."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.export.rank_states import RankStates, why_stateless
from pipelines.export.serving_module import ServingModule
from recsys_attn.models import RankingModel, bst, din
from tests.support import shop, small_models
from tests.support.encoded_exports import ENCODERS, LONGEST, SCHEMA, make, request

# What one test traces, the next ones call.
pytestmark = pytest.mark.xdist_group("pipelines/export/test_rank_states.py")
ITEMS = [13, 7, 999, 0, -1, 13, 2**40]
SEARCHES = ["a", "never seen", "b"]
STEPPING = ["rotary", *(pytest.param(n, marks=pytest.mark.thorough) for n in ("counted", "gru"))]
STEPPING.append(pytest.param("linear", marks=pytest.mark.thorough))
WHOLE = ("from end", "context", "dien")


@functools.cache
def _functions(encoder: str, seed: int = 3) -> dict[str, Any]:
    model, module = _made(encoder, seed)
    states = RankStates(model, module)
    return {"rank": module.signatures()["rank"], "keep": module} | states.signatures()


@functools.cache
def _made(encoder: str, seed: int) -> tuple[RankingModel, ServingModule]:
    fitted = shop.fitted(SCHEMA)
    model = make(encoder, fitted, seed)
    return model, ServingModule(model, fitted)


def _call(functions: dict[str, Any], key: str, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    names = functions[key].structured_input_signature[1]
    found = functions[key](**{name: tf.constant(inputs[name]) for name in names})
    return {name: np.asarray(value) for name, value in found.items()}


def _check(functions: dict[str, Any], inputs: dict[str, Any], state: np.ndarray) -> None:
    found = _call(functions, "rank_from_state", {**inputs, "state": state})
    expected = _call(functions, "rank", inputs)
    assert found.keys() == expected.keys()
    for task, scores in expected.items():
        np.testing.assert_allclose(found[task], scores, atol=1e-5)


@pytest.mark.parametrize("encoder", STEPPING)
def test_steps_give_the_scores_of_the_whole_histories(encoder: str) -> None:
    """The histories of the steps are of different lengths, and one of them ends earlier."""
    functions = _functions(encoder)
    state = _call(functions, "start", request([], []))["state"]
    _check(functions, request([], []), state)
    for start, stop in ((0, 1), (1, 2), (2, 5), (5, 7)):
        new = request(ITEMS[start:stop], SEARCHES[start:stop])
        state = _call(functions, "step", {**new, "state": state})["state"]
        _check(functions, request(ITEMS[:stop], SEARCHES[:stop]), state)
    whole = _call(functions, "start", request(ITEMS, SEARCHES))["state"]
    _check(functions, request(ITEMS, SEARCHES), whole)


@pytest.mark.thorough  # a served model holds it too
@pytest.mark.parametrize("encoder", WHOLE)
def test_an_encoder_without_steps_keeps_whole_histories(encoder: str) -> None:
    functions = _functions(encoder)
    assert "step" not in functions
    for seen, searches in ((ITEMS, SEARCHES), (ITEMS[:2], []), ([], []), (ITEMS * 2, SEARCHES * 2)):
        inputs = request(seen, searches)
        _check(functions, inputs, _call(functions, "start", inputs)["state"])


def test_rows_with_gaps_and_padding_share_a_batch() -> None:
    functions = _functions("rotary")
    missing = np.iinfo("int64").min
    rows = [[13, missing, 7, missing], [7, 13, 0, 999], [missing] * 4]
    one = request(ITEMS, SEARCHES)
    inputs = {name: np.repeat(values, 3, axis=0) for name, values in one.items()}
    inputs["past_items"] = np.array(rows)
    inputs["past_brands"] = np.array([[b"a", b"", b"b", b""], [b""] * 4, [b""] * 4], object)
    _check(functions, inputs, _call(functions, "start", inputs)["state"])
    first = {name: inputs[name][:, :1] for name in ("past_items", "past_brands", "searches")}
    later = {name: inputs[name][:, 1:] for name in ("past_items", "past_brands", "searches")}
    state = _call(functions, "start", first)["state"]
    state = _call(functions, "step", {**later, "state": state})["state"]
    _check(functions, inputs, state)


def test_a_state_of_other_weights_has_no_scores() -> None:
    functions = _functions("rotary")
    inputs = request(ITEMS[:3], SEARCHES)
    state = _call(functions, "start", inputs)["state"].copy()
    state[:, 0] += 1  # the fingerprint
    for _ in range(2):
        scores = _call(functions, "rank_from_state", {**inputs, "state": state})
        np.testing.assert_array_equal(scores["click"], np.nan)
        state = _call(functions, "step", {**inputs, "state": state})["state"]


def test_the_description_says_how_a_state_goes_on() -> None:
    model, module = _made("rotary", 3)
    assert why_stateless(model) is None
    assert RankStates(model, module).description == {"max_events": LONGEST}
    model, module = _made("from end", 3)
    assert "not causal" in RankStates(model, module).description["no_steps"]


@pytest.mark.parametrize(
    ("make_model", "reason"),
    [
        (lambda: small_models.make("din"), "No history has an encoder"),
        (lambda: bst(shop.fitted(SCHEMA).schema, width=4, mlp_units=(5,)), "No history has"),
        (lambda: din(small_models.SCHEMA, width=4, encoder=ENCODERS["gru"]), "'seen' has the ages"),
    ],
    ids=["no encoder", "the candidate is in the encoder", "ages"],
)
def test_a_model_without_a_state_says_why(make_model: Any, reason: str) -> None:
    assert reason in (why_stateless(make_model()) or "")
