"""Heads cut out of a trained layer leave the same layer with fewer heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, MultiHeadAttention, PrependTokens, prune_heads
from recsys_attn.attention.gates import HardConcrete
from recsys_attn.attention.patterns import Causal, Local, PerHead
from recsys_attn.blocks import TransformerBlock, TransformerEncoder
from recsys_attn.interactions import AutoInt, InteractingLayer
from recsys_attn.models import autoint
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

B, S, E, N, H = 2, 7, 11, 4, 6
X = np.random.default_rng(0).normal(size=(B, S, E)).astype("float32")
PRESENT = np.random.default_rng(1).random((B, S)) < 0.8
KEEP = [0, 3]
CAPPED = {"class_name": "temperature", "config": {"score": "qk_norm"}}
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
    {"class_name": "dense", "config": {"score": CAPPED, "weighting": "attention_sink"}},
    {
        "class_name": "dense",
        "config": {
            "score": {"class_name": "sum", "config": {"scores": ["dot", "relative_buckets"]}},
            "pair_values": "time_intervals",
        },
    },
    "hstu",
    "linformer",
    "memory_compressed",
    "linear_transformer",
    "performer",
    "retention",
    "gated_linear_attention",
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: m if isinstance(m, str) else m["class_name"]
)
def test_kept_heads_compute_as_before(mechanism: Any) -> None:
    layer = built(mechanism)
    smaller = prune_heads(layer, KEEP)
    assert smaller.num_heads == len(KEEP)
    assert smaller.count_params() < layer.count_params()
    output = smaller(X, query_mask=PRESENT)
    assert_close(output, without(layer, [1, 2]))


@pytest.mark.parametrize(
    ("keep", "num_heads"),
    [([0, 2, 3], [3, [0, 1, 1]]), ([1, 2], 2), ([2, 3], [2, 1]), ([1], 1)],
    ids=str,
)
def test_heads_with_shared_keys_keep_theirs(keep: list[int], num_heads: Any) -> None:
    layer = MultiHeadAttention([N, 2], [H, 3])
    layer(X)
    randomise(layer)
    smaller = prune_heads(layer, keep)
    assert smaller.get_config()["num_heads"] == num_heads
    assert smaller.num_key_heads == len({head // 2 for head in keep})
    gone = [head for head in range(N) if head not in keep]
    assert_close(smaller(X, query_mask=PRESENT), without(layer, gone))


def test_each_head_keeps_its_pattern() -> None:
    patterns = PerHead((Local(1), Causal(), Local(3), Local(2, 0)))
    layer = built(Dense(pattern=patterns))
    smaller = prune_heads(layer, KEEP)
    assert smaller.mechanism.pattern == PerHead((Local(1), Local(2, 0)))
    assert_close(smaller(X, query_mask=PRESENT), without(layer, [1, 2]))


def test_heads_whose_gates_are_closed_can_go() -> None:
    layer = built("transformer", gate=HardConcrete())
    gate = layer.heads.gate
    gate.log_alpha.assign([9.0, -9.0, 0.5, -9.0])
    expected = keras.ops.convert_to_numpy(layer(X))
    smaller = prune_heads(layer)
    assert smaller.num_heads == 2
    assert_close(smaller(X), expected)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ([], "at least one of the heads 0 ... 3. Received"),
        ([4], "at least one of the heads 0 ... 3. Received"),
        (None, "since no layer has the gate HardConcrete"),
    ],
)
def test_wrong_use_is_one_sentence(keep: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prune_heads(built("transformer"), keep)


def closed(layer: keras.layers.Layer, open_heads: list[list[int]]) -> None:
    """Random weights, and gates of which only some are open, layer by layer."""
    rng = np.random.default_rng(5)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    gates = [weight for weight in layer.weights if weight.name == "log_alpha"]
    for gate, heads in zip(gates, open_heads, strict=True):
        gate.assign([9.0 if head in heads else -9.0 for head in range(N)])


@pytest.mark.parametrize(
    ("mechanism", "update"),
    [
        ("autoint", None),
        ("t5", {"residual": "none", "norm": "rms"}),
        (Dense("shared_dot"), {"relu": "projections", "norm": "layer"}),
        ("additive", {"residual": "identity"}),
        ("disentangled", {"relu": "none"}),
        ("disentangled", {"relu": "projections", "residual": "none"}),
    ],
    ids=str,
)
def test_columns_of_pruned_interacting_heads_keep_the_residual(mechanism: Any, update: Any) -> None:
    layer = InteractingLayer(N, [H, 5], mechanism, update, gate="hard_concrete")
    layer(X)
    closed(layer, [[1, 3]])
    smaller = prune_heads(layer)
    assert smaller.kept_heads == (1, 3)
    assert smaller.count_params() < layer.count_params()
    assert_close(smaller(X, field_mask=PRESENT), layer(X, field_mask=PRESENT))
    again = prune_heads(smaller, [1])  # of those that are left
    assert again.kept_heads == (3,)
    keep = prune_heads(layer, [3])
    assert_close(again(X), keep(X))


PER_HEAD = PerHead((Local(1), Causal(), Local(3), Local(2, 0)))


def block() -> TransformerBlock:
    return TransformerBlock(MultiHeadAttention(N, H, Dense(pattern=PER_HEAD), gate="hard_concrete"))


HOLDERS = {
    "block": (block, 1),
    "encoder": (lambda: TransformerEncoder([block(), block()]), 2),
    "tokens": (lambda: PrependTokens(2, MultiHeadAttention(N, H, gate="hard_concrete")), 1),
    "AutoInt": (lambda: AutoInt(3, N, H, Dense(pattern=PER_HEAD), gate="hard_concrete"), 3),
}


@pytest.mark.parametrize(("make", "count"), HOLDERS.values(), ids=HOLDERS)
def test_a_layer_that_holds_attention_is_pruned_as_a_whole(make: Any, count: int) -> None:
    layer = make()
    layer(X)
    closed(layer, [[0, 2], [1], [1, 2, 3]][:count])
    smaller = prune_heads(layer)
    assert smaller.count_params() < layer.count_params()
    assert_close(smaller(X), layer(X))
    revived = type(layer).from_config(smaller.get_config())
    revived(X)
    revived.set_weights(smaller.get_weights())
    assert_close(revived(X), smaller(X))


def test_a_model_is_pruned_and_saved(tmp_path: Path) -> None:
    item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    schema = Schema((item, seen), (Task("click"),))
    model = autoint(
        schema,
        width=4,
        interaction={"num_layers": 2, "num_heads": N, "head_dim": 3},
        gates={"interaction": "hard_concrete"},
    )
    inputs = {"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])}
    closed(model, [[0, 2], []])
    expected = model.probabilities(inputs)["click"]
    assert np.ptp(expected) > 1e-3
    smaller = prune_heads(model)
    assert [x.kept_heads for x in smaller.tower.interaction.autoint.layers] == [(0, 2), (0,)]
    smaller.save(tmp_path / "model.keras")
    for each in (smaller, keras.saving.load_model(tmp_path / "model.keras")):
        assert each.count_params() == smaller.count_params() < model.count_params()
        np.testing.assert_allclose(each.probabilities(inputs)["click"], expected, rtol=1e-5)


def test_talking_heads_are_not_pruned_apart() -> None:
    layer = built("talking_heads", gate="hard_concrete")
    layer.heads.gate.log_alpha.assign([-5.0, 3.0, 3.0, 3.0])
    with pytest.raises(ValueError, match=r"TalkingHeads.*heads \[1, 2, 3\] mix in those of \[0\]"):
        prune_heads(layer)
    weighting = layer.mechanism.weighting
    for kernel in (weighting.logits_kernel, weighting.weights_kernel):
        mixing = keras.ops.convert_to_numpy(kernel).copy()
        mixing[0, 1:] = 0  # nobody listens to the head that goes
        kernel.assign(mixing)
    assert_close(prune_heads(layer)(X), layer(X))


def test_layer_without_attention_cannot_be_pruned() -> None:
    dense = keras.layers.Dense(3)
    dense(X)
    with pytest.raises(TypeError, match="must be a MultiHeadAttention or an InteractingLayer"):
        prune_heads(dense)


def test_several_layers_are_pruned_by_gates_or_by_layer() -> None:
    layer = AutoInt(2, N, H)
    layer(X)
    other = InteractingLayer(N, H, name="other")
    with pytest.raises(ValueError, match=r"must have layers of attention in `layer`.*name=other"):
        prune_heads(layer, keep={other: [0]})
    with pytest.raises(ValueError, match=r"names the heads of one layer.*for 2 layers"):
        prune_heads(layer, [0])


def test_layers_of_one_name_keep_heads_of_their_own() -> None:
    # So it is in a loaded model: each process numbers its layers anew.
    blocks = [TransformerBlock(MultiHeadAttention(N, H, name="same")) for _ in range(2)]
    encoder = TransformerEncoder(blocks)
    encoder(X)
    first, second = (each.attention for each in encoder.blocks)
    smaller = prune_heads(encoder, {first: [0], second: [0, 2, 3]})
    assert [each.attention.num_heads for each in smaller.blocks] == [1, 3]


def test_a_layer_in_two_places_is_not_pruned() -> None:
    shared = block()
    encoder = TransformerEncoder([shared, shared])
    encoder(X)
    with pytest.raises(ValueError, match="stands in several places"):
        prune_heads(encoder)


def test_a_layer_must_be_built() -> None:
    with pytest.raises(ValueError, match="Call it once"):
        prune_heads(MultiHeadAttention(2, 3), [0])
