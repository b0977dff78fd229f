"""Feed-forward, Transformer block and encoder follow their equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks import (
    FeedForward,
    TransformerBlock,
    TransformerEncoder,
)
from recsys_attn.blocks.sublayer import PLACEMENTS
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.references import blocks as reference

B, S, E = 3, 7, 10
RNG = np.random.default_rng(2)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
PRESENT = RNG.random((B, S)) < 0.6
PRESENT[0] = False


def block_of(
    layer: TransformerBlock, x: np.ndarray, present: np.ndarray, sublayers: int = 2
) -> np.ndarray:
    """The equation of a block, in float64."""
    weights = layer.feed_forward.get_weights()
    functions = [
        lambda x: reference.attention(x, present),
        lambda x: reference.feed_forward(weights, x),
    ]
    for around, function in zip(layer.sublayers, functions, strict=True):
        x = reference.sublayer(around, x, function, sublayers)
    return x * present[..., None]


FORMS = [
    *[(norm, placement, "plain") for norm in ("layer", "rms") for placement in PLACEMENTS],
    ("none", "pre", "plain"),
    ("none", "pre", "rezero"),
    ("rms", "post", "rezero"),
    ("layer", "pre", "gated"),
    ("layer", "pre", "gru"),
    ("layer", "sandwich", "gru"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize(("norm", "placement", "residual"), FORMS)
def test_a_block_follows_its_equation(
    norm: str, placement: str, residual: str, masked: bool
) -> None:
    layer = TransformerBlock(Attention(), 6, norm=norm, placement=placement, residual=residual)
    layer(INPUTS)
    randomise(layer)
    present = PRESENT if masked else np.ones_like(PRESENT)
    output = layer(INPUTS, present=PRESENT if masked else None)
    expected = block_of(layer, INPUTS.astype("float64"), present)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_encoder_is_its_blocks_and_a_final_norm(placement: str) -> None:
    blocks = [TransformerBlock(Attention(), 6, placement=placement) for _ in range(3)]
    encoder = TransformerEncoder(blocks)
    encoder(INPUTS)
    randomise(encoder)
    expected = INPUTS.astype("float64")
    for block in blocks:
        expected = block_of(block, expected, PRESENT)
    if placement == "post":
        assert encoder.final_norm is None
    else:
        expected = reference.norm("layer", encoder.final_norm.get_weights())(expected)
        expected *= PRESENT[..., None]
    output = encoder(INPUTS, present=PRESENT)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


def test_events_without_positions_are_a_set() -> None:
    order = RNG.permutation(S)
    encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 3)) for _ in range(2)])
    output = np.asarray(encoder(INPUTS, present=PRESENT))
    permuted = encoder(INPUTS[:, order], present=PRESENT[:, order])
    assert_close(permuted, output[:, order])


def test_feed_forward_looks_at_one_position_at_a_time() -> None:
    layer = FeedForward(6, activation="gelu")
    output = np.asarray(layer(INPUTS))
    order = RNG.permutation(S)
    np.testing.assert_allclose(layer(INPUTS[:, order]), output[:, order], rtol=1e-5, atol=1e-6)
    chunks = [np.asarray(layer(INPUTS[:, s : s + 2])) for s in range(0, S, 2)]
    np.testing.assert_allclose(np.concatenate(chunks, 1), output, rtol=1e-5, atol=1e-6)
    changed = INPUTS.copy()
    changed[:, 3] += 1
    np.testing.assert_allclose(
        np.delete(np.asarray(layer(changed)), 3, 1), np.delete(output, 3, 1), rtol=1e-5, atol=1e-6
    )


def test_dropout_is_for_training_only() -> None:
    layer = TransformerBlock(Attention(), dropout=0.5)
    still = np.asarray(layer(INPUTS))
    np.testing.assert_array_equal(layer(INPUTS), still)
    assert np.abs(np.asarray(layer(INPUTS, training=True)) - still).max() > 0.1
    assert layer.feed_forward.units == 4 * E


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FeedForward(0), ValueError, "`units` must be a positive integer"),
        (lambda: FeedForward(3, "rleu"), ValueError, "Did you mean 'relu'"),
        (lambda: TransformerBlock("dense"), TypeError, "`attention` must be a layer.*'dense'"),
        (lambda: TransformerBlock(Attention(), -1), ValueError, "`feed_forward_units` must be an"),
        (
            lambda: TransformerBlock(keras.layers.Dense(3)),
            TypeError,
            "`attention` must be a layer that takes `query_mask` and `key_mask`",
        ),
        (
            lambda: TransformerBlock(Attention())(
                keras.Input((3, E)), keras.Input((2,), dtype="bool")
            ),
            ValueError,
            r"`present` must have .*, \(None, 3\)\. Received: present.shape=\(None, 2\)",
        ),
        (lambda: TransformerEncoder([]), ValueError, "at least one TransformerBlock"),
        (lambda: TransformerEncoder([Attention()]), TypeError, "must be TransformerBlocks"),
    ],
)
def test_wrong_use_is_one_sentence(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_block_that_is_there_twice_shares_its_weights() -> None:
    block = TransformerBlock(Attention(), 6)
    encoder = TransformerEncoder([block, block])
    output = encoder(INPUTS)
    expected = encoder.final_norm(block(block(INPUTS)))
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    assert len(encoder.trainable_variables) == len(block.trainable_variables) + 2


def test_norm_is_any_keras_layer_without_padding() -> None:
    block = TransformerBlock(Attention(), 6, norm=keras.layers.BatchNormalization())
    block(INPUTS)
    first, second = (sublayer.entry_norm for sublayer in block.sublayers)
    assert first is not second
    revived = TransformerBlock.from_config(block.get_config())
    revived(INPUTS)
    revived.set_weights(block.get_weights())
    changed = INPUTS + 100 * ~PRESENT[..., None]
    expected = block(INPUTS, present=PRESENT, training=True)
    assert_close(revived(changed.astype("float32"), present=PRESENT, training=True), expected)
    assert_close(first.moving_mean, revived.sublayers[0].entry_norm.moving_mean)


def test_norm_takes_its_arguments_as_a_table() -> None:
    table = {"class_name": "rms", "config": {"epsilon": 0.25}}
    block = TransformerBlock(Attention(), norm=table, dtype="mixed_bfloat16")
    assert [sublayer.entry_norm.epsilon for sublayer in block.sublayers] == [0.25, 0.25]
    assert block.sublayers[0].entry_norm.dtype_policy.name == "mixed_bfloat16"
    assert block.get_config()["norm"] == table
