"""Layers whose queries come from elsewhere take the form of a mechanism that looks up."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import (
    Attention,
    AttentionPooling,
    MultiHeadAttention,
    patterns,
    presets,
)
from recsys_attn.attention.mechanisms import Compressed, Dense, Linear, Routed
from recsys_attn.attention.routers import Blocks
from recsys_attn.interactions import TargetAttention
from recsys_attn.multitask import AttentionGate
from tests.support.arrays import assert_close

B, T, S, E = 2, 3, 23, 7
RNG = np.random.default_rng(0)
CANDIDATES = RNG.normal(size=(B, T, E)).astype("float32")
HISTORY = RNG.normal(size=(B, S, E)).astype("float32")
PRESENT = RNG.random((B, S)) < 0.7


def output_of(layer: Any, *inputs: Any, **kwargs: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(layer(*inputs, **kwargs))


def test_a_router_takes_the_same_parts_across() -> None:
    routed = Routed(Blocks(4), "alibi", patterns.Local(3), dropout=0.2, dtype="mixed_bfloat16")
    crossing = routed.as_cross_attention()
    assert crossing.router is routed.router
    assert crossing.score is routed.score
    assert crossing.pattern is routed.pattern
    assert crossing.dropout.rate == 0.2
    assert crossing.dtype_policy.name == "mixed_bfloat16"


SMALL = {
    "reformer": {"size": 3, "buckets": 2},
    "routing_transformer": {"clusters": 2, "window": 4},
    "sinkhorn": {"size": 4},
    "bigbird": {"size": 2, "count": 1},
    "local": {"window": 2},
    "longformer": {"window": 2},
}


@pytest.mark.parametrize("name", SMALL)
def test_layers_whose_queries_come_from_elsewhere_look_up(name: str) -> None:
    short = {"class_name": name, "config": SMALL[name]}
    layers = [
        TargetAttention(short),
        TargetAttention(short, num_heads=2, head_dim=3),
        TargetAttention(presets.get(short)),
        AttentionPooling(short, num_queries=2),
        AttentionGate(2, short),
    ]
    for layer in layers:
        config = json.loads(json.dumps(layer.get_config()))
        assert config["mechanism"]["class_name"] == "Lookup"
        revived = type(layer).from_config(config)
        assert json.dumps(revived.get_config()) == json.dumps(config)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SMALL)
def test_target_attention_ignores_padding_on_both_sides(name: str) -> None:
    layer, real = TargetAttention({"class_name": name, "config": SMALL[name]}), 8
    events, padding = HISTORY[:, :real], HISTORY[:, real:]
    right, left = (np.concatenate(pair, axis=1) for pair in ((events, padding), (padding, events)))
    present = np.arange(S) < np.full((B, 1), real)
    output = output_of(layer, CANDIDATES, right, history_mask=present)
    if name != "sinkhorn":  # whose blocks would hold others
        assert_close(output_of(layer, CANDIDATES, left, history_mask=present[:, ::-1]), output)
    if name != "bigbird":  # whose random and last blocks depend on the length
        assert_close(output_of(layer, CANDIDATES, events), output)
    empty = output_of(layer, CANDIDATES, events[:, :0], history_mask=present[:, :0])
    np.testing.assert_array_equal(empty, np.zeros_like(output))
    alone = output_of(layer, CANDIDATES[:, 1:2], right, history_mask=present)
    assert_close(alone, output[:, 1:2])


def test_target_attention_by_blocks_is_dense_with_the_pattern() -> None:
    for pattern in (patterns.Local(6), patterns.Local(6) | patterns.Global((0, 2))):
        routed = TargetAttention(Routed(Blocks(6, first=1), pattern=pattern))
        dense = TargetAttention(Dense(pattern=pattern))
        for mask in (None, PRESENT, PRESENT & False):
            expected = output_of(dense, CANDIDATES, HISTORY, history_mask=mask)
            assert_close(output_of(routed, CANDIDATES, HISTORY, history_mask=mask), expected)


def test_tasks_differ_by_their_queries_alone() -> None:
    gate = AttentionGate(2, {"class_name": "reformer", "config": {"buckets": 1, "size": S}})
    gate.build(HISTORY.shape)
    queries = keras.ops.convert_to_numpy(gate.queries)[None]
    attention = Attention(Dense("shared_dot"))
    expected = output_of(attention, queries, HISTORY, query_positions=np.array([S, S]))
    assert_close(keras.ops.convert_to_numpy(gate(HISTORY)[0]), expected)


def test_routed_error_names_lookup() -> None:
    with pytest.raises(ValueError, match="For cross-attention use the mechanism Lookup"):
        Attention("local")(CANDIDATES, HISTORY)


MISPLACED = {
    "causal=True Linear": lambda: Linear(causal=True),
    "causal=True Compressed": lambda: Compressed("pool", causal=True),
    "Compressed has no positions": lambda: Compressed("pool", "alibi"),
}


@pytest.mark.parametrize("make", MISPLACED.values(), ids=MISPLACED)
def test_causal_mechanisms_refuse_queries_from_elsewhere(make: Any) -> None:
    """With as many queries as keys it would run, and depend on the order of the queries."""
    for layer in (AttentionPooling, TargetAttention, lambda m: AttentionGate(S, m)):
        with pytest.raises(ValueError, match=r"is self-attention|has no positions for the queries"):
            layer(make())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["reformer", "routing_transformer", "sinkhorn", "local"])
def test_a_router_of_one_sequence_takes_no_other_keys(name: str) -> None:
    small = {"routing_transformer": {"clusters": 2, "window": 4}}.get(name, {})
    part = {"class_name": name, "config": small}
    other = HISTORY[:, ::-1].copy()  # as many, so that only their being others tells
    for layer in (Attention(part), MultiHeadAttention(2, 4, part)):
        with pytest.raises(ValueError, match="`query`, `value` and `key` must be one tensor"):
            layer(HISTORY, other)
        assert layer(HISTORY, HISTORY).shape == HISTORY.shape
    mixed = MultiHeadAttention(2, 4, part, dtype="mixed_bfloat16")
    assert mixed(HISTORY, HISTORY).shape == HISTORY.shape
