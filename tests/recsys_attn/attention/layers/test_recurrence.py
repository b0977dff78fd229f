"""Linear attention one event at a time equals linear attention over the whole sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, Recurrence
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

B, S, E, T = 2, 7, 5, 3
X = np.random.default_rng(0).normal(size=(B, S, E)).astype("float32")
MAPS = [
    "linear_transformer",
    "efficient_attention",
    "performer",
    "random_feature_attention",
    "taylor",
    "retention",
    "gated_linear_attention",
]


def attention(name: str, causal: bool, **kwargs: Any) -> MultiHeadAttention:
    mechanism = {"class_name": name, "config": {"causal": causal}}
    layer = MultiHeadAttention(2, 4, mechanism, gate="output", **kwargs)
    layer(X)
    randomise(layer)
    return layer


@pytest.mark.parametrize("name", MAPS)
def test_step_by_step_equals_all_at_once(name: str) -> None:
    layer = attention(name, causal=True)
    recurrence = Recurrence(layer)
    state = recurrence.initial_state(B)
    outputs = []
    for t in range(S):
        output, state = recurrence.step(state, X[:, t : t + 1])
        outputs.append(np.asarray(output))
    assert_close(np.concatenate(outputs, 1), layer(X))


@pytest.mark.parametrize("name", MAPS)
def test_candidates_read_a_state_as_they_attend_the_history(name: str) -> None:
    layer = attention(name, causal=False)
    recurrence = Recurrence(layer)
    candidates = np.random.default_rng(1).normal(size=(B, T, E)).astype("float32")
    present = np.random.default_rng(2).random((B, S)) < 0.7
    state = recurrence.update(recurrence.initial_state(B), X[:, :4], present[:, :4])
    state = recurrence.update(state, X[:, 4:], present[:, 4:])
    expected = layer(candidates, X, key_mask=present)
    np.testing.assert_allclose(recurrence.read(state, candidates), expected, rtol=1e-3, atol=1e-4)


def test_a_layer_must_be_built() -> None:
    with pytest.raises(ValueError, match="Call it once"):
        Recurrence(MultiHeadAttention(2, 3, "linear_transformer"))


def test_other_mechanisms_have_no_state() -> None:
    with pytest.raises(TypeError, match=r"Only the mechanism Linear.*Received: Dense"):
        Recurrence(MultiHeadAttention(2, 3))
