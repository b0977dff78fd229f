"""Heads cut out of a trained layer leave the same layer with fewer heads."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, MultiHeadAttention, prune_heads
from recsys_attn.attention.gates import HardConcrete
from recsys_attn.attention.patterns import Causal, Local, PerHead
from recsys_attn.interactions import InteractingLayer
from tests.support.layer_case import randomise

B, S, E, N, H = 2, 7, 11, 4, 6
X = np.random.default_rng(0).normal(size=(B, S, E)).astype("float32")
PRESENT = np.random.default_rng(1).random((B, S)) < 0.8
KEEP = [0, 3]
MECHANISMS = [
    "transformer",
    "additive",
    "content_addressing",
    "han",
    "din",
    "alibi",
    "transformer_xl",
    "t5",
    "rotary",
    "local_p",
    "hstu",
    "linformer",
    "memory_compressed",
    "linear_transformer",
    "performer",
    {"class_name": "reformer", "config": {"size": 4, "buckets": 2, "rounds": 2}},
    {"class_name": "routing_transformer", "config": {"clusters": 2, "window": 4}},
    {"class_name": "local", "config": {"window": 2}},
]


def built(mechanism: Any, **kwargs: Any) -> MultiHeadAttention:
    layer = MultiHeadAttention(N, H, mechanism, **kwargs)
    layer(X)
    randomise(layer)
    return layer


def without(layer: MultiHeadAttention, heads: list[int]) -> np.ndarray:
    """The output where these heads have no way out."""
    kernel = next(w for w in layer.weights if w.name == "output_kernel")
    changed = keras.ops.convert_to_numpy(kernel).copy().reshape(N, -1, E)
    changed[heads] = 0
    kernel.assign(changed.reshape(kernel.shape))
    return keras.ops.convert_to_numpy(layer(X, query_mask=PRESENT))


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: m if isinstance(m, str) else m["class_name"]
)
def test_the_heads_that_stay_do_as_before(mechanism: Any) -> None:
    layer = built(mechanism)
    smaller = prune_heads(layer, KEEP)
    assert smaller.num_heads == len(KEEP)
    assert smaller.count_params() < layer.count_params()
    output = smaller(X, query_mask=PRESENT)
    np.testing.assert_allclose(output, without(layer, [1, 2]), rtol=1e-4, atol=1e-5)


def test_each_head_keeps_its_pattern() -> None:
    patterns = PerHead((Local(1), Causal(), Local(3), Local(2, 0)))
    layer = built(Dense(pattern=patterns))
    smaller = prune_heads(layer, KEEP)
    assert smaller.mechanism.pattern == PerHead((Local(1), Local(2, 0)))
    np.testing.assert_allclose(
        smaller(X, query_mask=PRESENT), without(layer, [1, 2]), rtol=1e-4, atol=1e-5
    )


def test_heads_whose_gates_are_closed_can_go() -> None:
    layer = built("transformer", gate=HardConcrete())
    gate = layer.heads.gate
    gate.log_alpha.assign([9.0, -9.0, 0.5, -9.0])
    expected = keras.ops.convert_to_numpy(layer(X))
    smaller = prune_heads(layer)
    assert smaller.num_heads == 2
    np.testing.assert_allclose(smaller(X), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ([], "at least one of the heads 0 ... 3. Received"),
        ([4], "at least one of the heads 0 ... 3. Received"),
        (None, "has no gate HardConcrete"),
    ],
)
def test_wrong_use_is_one_sentence(keep: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prune_heads(built("transformer"), keep)


def test_only_a_layer_whose_width_stays_can_be_pruned() -> None:
    with pytest.raises(TypeError, match=r"must be a MultiHeadAttention.*InteractingLayer"):
        prune_heads(InteractingLayer(), [0])


def test_a_layer_must_be_built() -> None:
    with pytest.raises(ValueError, match="Call it once"):
        prune_heads(MultiHeadAttention(2, 3), [0])
