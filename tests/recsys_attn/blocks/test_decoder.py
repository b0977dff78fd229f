"""Decoder, sharing of blocks and conditional norms follow their equations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks import (
    ConditionalNorm,
    Film,
    TransformerBlock,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
)
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.references import blocks as reference

B, S, K, E, C = 3, 5, 7, 6, 2
RNG = np.random.default_rng(4)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
CONTEXT = RNG.normal(size=(B, K, E)).astype("float32")
CONDITION = RNG.normal(size=(B, C)).astype("float32")
PRESENT = RNG.random((B, S)) < 0.7
CONTEXT_MASK = RNG.random((B, K)) < 0.7
PAIRS = RNG.random((B, S, K)) < 0.6
CAUSAL = {"class_name": "dense", "config": {"score": "scaled_dot", "pattern": "causal"}}


def decoder_block(**options: Any) -> TransformerDecoderBlock:
    return TransformerDecoderBlock(Attention(CAUSAL), Attention(), 8, **options)


def decoded(layer: TransformerDecoderBlock, x: np.ndarray) -> np.ndarray:
    context = CONTEXT.astype("float64")
    own = PRESENT[:, None] & np.tri(S, dtype=bool)
    across = CONTEXT_MASK[:, None] & PAIRS
    weights = layer.feed_forward.get_weights()
    functions = [
        lambda x: reference.attention(x, PRESENT, x, own),
        lambda x: reference.attention(x, PRESENT, context, across),
        lambda x: reference.feed_forward(weights, x),
    ]
    for around, function in zip(layer.sublayers, functions, strict=True):
        x = reference.sublayer(around, x, function, sublayers=3)
    return x * PRESENT[..., None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"placement": "post"}, {"norm": "rms", "placement": "sandwich"}, {"residual": "gru"}],
    ids=["pre", "post", "sandwich", "gru"],
)
def test_decoder_is_its_blocks_and_a_final_norm(options: dict[str, Any]) -> None:
    blocks = [decoder_block(**options) for _ in range(2)]
    decoder = TransformerDecoder(blocks)
    masks = {"present": PRESENT, "context_mask": CONTEXT_MASK, "cross_attention_mask": PAIRS}
    decoder(INPUTS, CONTEXT, **masks)
    randomise(decoder)
    expected = INPUTS.astype("float64")
    for block in blocks:
        expected = decoded(block, expected)
    if decoder.final_norm is not None:
        kind = options.get("norm", "layer")
        expected = reference.norm(kind, decoder.final_norm.get_weights())(expected)
        expected = expected * PRESENT[..., None]
    output = decoder(INPUTS, CONTEXT, **masks)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


def test_a_decoder_sees_no_later_position() -> None:
    block = decoder_block()
    block(INPUTS, CONTEXT)
    randomise(block)
    changed = INPUTS.copy()
    changed[:, 3:] += 5
    assert_close(block(changed, CONTEXT)[:, :3], np.asarray(block(INPUTS, CONTEXT))[:, :3])
    with pytest.raises(ValueError, match="`attention` of a decoder must be causal"):
        TransformerDecoderBlock(Attention(), Attention())


def test_decoder_with_deepnorm_has_three_sublayers() -> None:
    attention = [MultiHeadAttention(2, 3, CAUSAL), MultiHeadAttention(2, 3)]
    block = TransformerDecoderBlock(*attention, placement="post", residual="deepnorm")
    TransformerDecoder([block], depth=4)
    assert block.sublayers[0].residual.initial_gain == pytest.approx(48**-0.25)


def shared(depth: int) -> TransformerEncoder:
    encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 3), 8)], depth)
    encoder(INPUTS)
    randomise(encoder)
    return encoder


def test_one_block_applied_often_is_albert(tmp_path: Path) -> None:
    encoder = shared(4)
    x = INPUTS
    for _ in range(4):
        x = encoder.blocks[0](x, present=PRESENT)
    expected = encoder.final_norm(x) * PRESENT[..., None]
    assert_close(encoder(INPUTS, present=PRESENT), expected)
    assert len(encoder.weights) == len(encoder.blocks[0].weights) + 2
    inputs = keras.Input((S, E))
    model = keras.Model(inputs, encoder(inputs))
    model.save(tmp_path / "model.keras")
    assert_close(keras.saving.load_model(tmp_path / "model.keras")(INPUTS), encoder(INPUTS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", [1, 2, 4, None])
def test_unsharing_changes_no_output(groups: int | None) -> None:
    encoder = shared(4)
    other = encoder.unshared(groups)
    assert len({id(block) for block in other.applied}) == len(other.blocks) == (groups or 4)
    assert_close(other(INPUTS, present=PRESENT), encoder(INPUTS, present=PRESENT))
    assert len(other.weights) == (groups or 4) * len(encoder.blocks[0].weights) + 2
    assert len({block.attention.name for block in other.blocks}) == len(other.blocks)


@pytest.mark.parametrize("groups", [3, 8, 0])
def test_groups_that_do_not_fit_are_an_error(groups: int) -> None:
    with pytest.raises(ValueError, match="`groups` must"):
        shared(4).unshared(groups)


def test_depth_is_a_multiple_of_the_blocks() -> None:
    blocks = [TransformerBlock(Attention()) for _ in range(2)]
    with pytest.raises(ValueError, match=r"`depth` must be a multiple of .*, 2, .*depth=3"):
        TransformerEncoder(blocks, 3)


@pytest.mark.parametrize("make", [Film, ConditionalNorm])
def test_scale_and_offset_depend_on_the_condition(make: Any) -> None:
    layer = make()
    new = np.asarray(layer(INPUTS, CONDITION))
    plain = reference.norm("layer", [np.ones(E), np.zeros(E)])(INPUTS.astype("float64"))
    x = plain if make is ConditionalNorm else INPUTS.astype("float64")
    np.testing.assert_allclose(new, x, rtol=1e-4, atol=1e-5)
    randomise(layer)
    scale, offset, of_scale, of_offset = layer.get_weights()
    expected = x * (scale + CONDITION @ of_scale)[:, None]
    expected = expected + (offset + CONDITION @ of_offset)[:, None]
    np.testing.assert_allclose(layer(INPUTS, CONDITION), expected, rtol=1e-4, atol=1e-5)


def test_a_new_conditional_encoder_is_one_with_layer_norm() -> None:
    made = [TransformerBlock(MultiHeadAttention(2, 3), 8, norm=n) for n in ("conditional", "layer")]
    conditional, plain = (TransformerEncoder([block]) for block in made)
    conditional(INPUTS, condition=CONDITION)
    plain(INPUTS)
    for part in ("attention", "feed_forward"):
        getattr(made[0], part).set_weights(getattr(made[1], part).get_weights())
    assert_close(conditional(INPUTS, condition=CONDITION), plain(INPUTS))
    randomise(conditional)
    output = np.asarray(conditional(INPUTS, condition=CONDITION))
    assert np.abs(output - np.asarray(conditional(INPUTS, condition=0 * CONDITION))).max() > 0.1


def test_condition_and_norm_need_each_other() -> None:
    with pytest.raises(ValueError, match=r"call the block with `condition` \(B, C\)"):
        TransformerBlock(Attention(), norm="conditional")(INPUTS)
    with pytest.raises(TypeError, match="no effect without norm='conditional'"):
        TransformerBlock(Attention())(INPUTS, condition=CONDITION)
