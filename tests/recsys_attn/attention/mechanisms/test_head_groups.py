"""Groups of heads with mechanisms of their own equal those mechanisms, each with its heads."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import (
    HeadGroups,
    Lookup,
    MultiHeadAttention,
    Routed,
    dense_weights,
    patterns,
    prune_heads,
)
from recsys_attn.attention.mechanisms import Compressed, Dense, Linear
from recsys_attn.attention.positions import AlibiPositions, encodes_order
from recsys_attn.attention.routers import Blocks, KMeans, Lsh
from recsys_attn.serialization import deserialize, serialize
from tests.support.arrays import assert_close, numpy
from tests.support.heads import KEY, KEY_MASK, QUERY, SELF, VALUE, B, N, S, T
from tests.support.refusals import refusals

RNG = np.random.default_rng(0)
MASKS = {"query_mask": KEY_MASK, "key_mask": KEY_MASK}
BIAS = RNG.normal(size=(B, N, S, S)).astype("float32")
PAIRS = RNG.random((B, N, S, S)) < 0.7


def groups(sizes: Any = (2, 3)) -> HeadGroups:
    return HeadGroups(
        [Routed(Blocks(4), pattern=patterns.Local(3)), Routed(KMeans(3, 6))], heads=sizes
    )


def test_each_group_is_its_mechanism() -> None:
    layer = groups()
    bias = {"attention_bias": BIAS}
    output = numpy(layer(SELF, KEY, VALUE, **MASKS, **bias)[0])
    parts = [slice(0, 2), slice(2, N)]
    for part, mechanism in zip(parts, layer.mechanisms, strict=True):
        inputs = [x[:, :, part] for x in (SELF, KEY, VALUE)]
        alone, _ = mechanism(*inputs, **MASKS, attention_bias=BIAS[:, part])
        assert_close(output[:, :, part], numpy(alone))


def test_one_mechanism_for_all_groups_is_that_mechanism() -> None:
    layer = HeadGroups([Dense(pattern="causal"), Routed(Blocks(S), pattern="causal")], [2, 3])
    given = {**MASKS, "attention_mask": PAIRS}
    expected, expected_weights = Dense(pattern="causal")(SELF, KEY, VALUE, **given)
    output, weights = layer(SELF, KEY, VALUE, return_weights=True, **given)
    assert layer.is_causal
    assert_close(numpy(output), numpy(expected))
    assert_close(numpy(weights), numpy(expected_weights))
    assert layer(SELF, KEY, VALUE)[1] is None


def test_groups_cross_to_a_history() -> None:
    layer = groups().as_cross_attention()
    assert [type(m) for m in layer.mechanisms] == [Lookup, Lookup]
    output, weights = layer(QUERY, KEY, VALUE, key_mask=KEY_MASK, return_weights=True)
    dense = numpy(dense_weights(weights, T, S))
    assert_close(numpy(output), np.einsum("bnts,bsnv->btnv", dense, VALUE))


def test_config_survives_json() -> None:
    config = serialize(groups())
    revived = deserialize(config)
    assert serialize(revived) == config
    short = HeadGroups(["local", {"class_name": "bigbird", "config": {"size": 3}}])
    assert MultiHeadAttention(4, 2, short)(SELF[:, :, 0]).shape == SELF[:, :, 0].shape


def test_positions_reach_every_group() -> None:
    layer = groups()
    assert not encodes_order(layer)
    turned = AlibiPositions().in_mechanism(layer)
    assert encodes_order(turned)
    assert all(encodes_order(mechanism) for mechanism in turned.mechanisms)
    assert not encodes_order(HeadGroups([Dense(pattern="causal"), "transformer"]))


def test_heads_are_not_cut_out() -> None:
    layer = MultiHeadAttention(N, 4, groups())
    layer(SELF[:, :, 0])
    with pytest.raises(ValueError, match="Heads of HeadGroups cannot be cut out"):
        prune_heads(layer, keep=[0, 3])


EVENTS = keras.ops.ones((2, 5, 8))

test_wrong_groups_are_refused = refusals(
    (lambda: HeadGroups(["local"]), "`mechanisms` must be a list of at least two"),
    (lambda: HeadGroups("local"), "`mechanisms` must be a list"),
    (lambda: HeadGroups(["local", "lokal"]), "Did you mean 'local'"),
    (lambda: HeadGroups(["local", "local"], [1]), "`heads` must be a list of 2 numbers"),
    (lambda: HeadGroups(["local", "local"], [1, 0]), r"`heads\[1\]` must be a positive integer"),
    (lambda: HeadGroups(["local", "reformer"]), "give the other mechanisms the score 'shared_dot'"),
    (
        lambda: MultiHeadAttention(3, 4, HeadGroups(["local", "bigbird"]))(EVENTS),
        "that must be a multiple of 2. Received: heads=None",
    ),
    (
        lambda: MultiHeadAttention(3, 4, HeadGroups(["local", "bigbird"], [1, 1]))(EVENTS),
        "`heads` must sum to the number of heads, 3",
    ),
    (
        lambda: HeadGroups([Linear(causal=True), Dense()]).as_cross_attention(),
        "With causal=True Linear is self-attention",
    ),
)


def test_a_mask_that_one_group_cannot_honour_is_refused() -> None:
    for mechanism, name in (
        (Compressed("pool"), "attention_bias"),
        (Routed(Lsh(4), "scaled_dot"), "attention_mask"),
    ):
        other = Dense("shared_dot") if name == "attention_mask" else Dense()
        layer = HeadGroups([other, mechanism], [2, 3])
        with pytest.raises(TypeError, match=f"cannot honour `{name}`.* is one of its mechanisms"):
            layer(SELF, KEY, VALUE, **{name: BIAS if "bias" in name else PAIRS})
