"""Positions in the score: equations in float64, limits, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, presets, scores
from recsys_attn.attention.positions import POSITIONS, encodes_order
from tests.support.layer_case import randomise
from tests.support.refusals import refusals

B, S, N, H = 2, 7, 2, 6
RNG = np.random.default_rng(5)
QUERY, KEY, VALUE = RNG.normal(size=(3, B, S, N, H)).astype("float32")
Weights = dict[str, np.ndarray]
RELATIVE: dict[str, dict[str, Any]] = {
    "alibi": {},
    "t5": {"num_buckets": 8, "max_distance": 5},
    "rotary": {"base": 50.0},
    "transformer_xl": {"max_distance": 4},
}


def with_positions(name: str, mechanism: Any = "transformer") -> Any:
    return POSITIONS.get({"class_name": name, "config": RELATIVE[name]}).in_mechanism(mechanism)


def alibi(n: int, i: int, j: int, q: Any, k: Any, weights: Weights) -> float:
    return q @ k / H**0.5 - 2 ** (-8 * (n + 1) / N) * abs(i - j)


def t5(n: int, i: int, j: int, q: Any, k: Any, weights: Weights) -> float:
    distance = abs(i - j)  # of 4 buckets in a direction, 2 are exact; the last one starts at 5
    bucket = distance if distance < 2 else 2 + int(2 * np.log(distance / 2) / np.log(5 / 2))
    return q @ k / H**0.5 + weights["table"][n, min(bucket, 3) + (4 if j > i else 0)]


def rotary(n: int, i: int, j: int, q: Any, k: Any, weights: Weights) -> float:
    half = H // 2

    def turned(x: np.ndarray, p: int) -> np.ndarray:
        turns = (x[:half] + 1j * x[half:]) * np.exp(1j * p * 50.0 ** (-np.arange(half) / half))
        return np.concatenate([turns.real, turns.imag])

    return turned(q, i) @ turned(k, j) / H**0.5


def transformer_xl(n: int, i: int, j: int, q: Any, k: Any, weights: Weights) -> float:
    angles = np.clip(i - j, -4, 4) * 10000.0 ** (-np.arange(0, H, 2) / H)
    place = np.concatenate([np.sin(angles), np.cos(angles)]) @ weights["kernel"][n]
    content = (q + weights["query_bias"][n]) @ k
    return (content + (q + weights["position_bias"][n]) @ place) / H**0.5


EQUATIONS: dict[str, Callable[..., float]] = {
    "alibi": alibi,
    "t5": t5,
    "rotary": rotary,
    "transformer_xl": transformer_xl,
}


@pytest.mark.parametrize("name", RELATIVE)
def test_weights_follow_the_equation(name: str) -> None:
    mechanism = with_positions(name)
    mechanism(QUERY, KEY, VALUE)
    if name != "alibi":  # its slopes are no weights to draw
        randomise(mechanism)
    _, weights = mechanism(QUERY, KEY, VALUE)
    own = {w.name: keras.ops.convert_to_numpy(w).astype("float64") for w in mechanism.weights}
    logits = np.zeros((B, N, S, S))
    for b, n, i, j in np.ndindex(logits.shape):
        q, k = QUERY[b, i, n].astype("float64"), KEY[b, j, n].astype("float64")
        logits[b, n, i, j] = EQUATIONS[name](n, i, j, q, k, own)
    expected = np.exp(logits - logits.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(weights), expected, atol=1e-6)


@pytest.mark.parametrize("name", RELATIVE)
def test_a_shift_of_all_positions_changes_nothing(name: str) -> None:
    mechanism = with_positions(name)
    at = np.arange(S, dtype="int32")
    first, _ = mechanism(QUERY, KEY, VALUE, query_positions=at, key_positions=at)
    shifted, _ = mechanism(QUERY, KEY, VALUE, query_positions=at + 11, key_positions=at + 11)
    np.testing.assert_allclose(first, shifted, atol=1e-5)
    reversed_, _ = mechanism(QUERY[:, ::-1], KEY[:, ::-1], VALUE[:, ::-1])
    moved = np.abs(np.asarray(reversed_)[:, ::-1] - np.asarray(first)).max()
    # Distances in both directions are equal for ALiBi, and so is a reversed sequence.
    assert (moved > 1e-3) == (name != "alibi")


def test_a_mechanism_keeps_its_other_parts() -> None:
    mechanism = with_positions("alibi", Dense("dot", "causal", weighting="sigmoid", dropout=0.25))
    config = mechanism.get_config()
    assert config["pattern"]["class_name"] == "Causal"
    assert config["weighting"]["class_name"] == "Sigmoid"
    assert mechanism.dropout.rate == 0.25
    longformer = presets.longformer(window=2)
    assert encodes_order(with_positions("t5", longformer))
    assert not encodes_order(longformer)


def test_queries_are_normalised_before_they_are_turned() -> None:
    capped = {"class_name": "soft_cap", "config": {"score": "qk_norm", "cap": 30.0}}
    mechanism = with_positions("rotary", Dense(capped))
    expected = Dense(scores.SoftCap(scores.QkNorm(scores.Rotary(base=50.0)), cap=30.0))
    np.testing.assert_array_equal(mechanism(QUERY, KEY, VALUE)[0], expected(QUERY, KEY, VALUE)[0])
    assert encodes_order(mechanism)


def test_scores_and_decays_encode_the_order() -> None:
    known = {name for name in presets.PRESETS if encodes_order(name)}
    scores_with = {"transformer_xl", "xlnet", "t5", "alibi", "rotary", "synthesizer", "hstu"}
    assert known == scores_with | {"retention", "gated_linear_attention"}


test_wrong_use_is_one_sentence = refusals(
    (lambda: with_positions("alibi", "performer"), "part of the score, and Linear.* has none"),
    (
        lambda: with_positions("rotary", "t5"),
        r"Dense\(Dot \+ RelativeBuckets\) has positions in its score",
    ),
    (lambda: POSITIONS.get("none").in_mechanism("alibi"), "'none' contradict Dense"),
    (lambda: with_positions("transformer_xl", "additive"), "must be 'dot' or 'scaled_dot'"),
    (lambda: with_positions("alibi", "linformer"), "not possible with LowRank"),
    (
        lambda: POSITIONS.get({"class_name": "t5", "config": {"num_buckets": 3}}),
        "`num_buckets` must be even",
    ),
    (
        lambda: POSITIONS.get({"class_name": "rotary", "config": {"bas": 3}}),
        "'rotary' has no argument 'bas'.*Did you mean 'base'",
    ),
    (
        lambda: POSITIONS.get({"class_name": "transformer_xl", "config": {"max_distance": 0}}),
        "`max_distance` must be a positive integer",
    ),
)
