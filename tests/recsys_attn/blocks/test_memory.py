"""Masks, biases, positions and memory reach the attention of blocks and encoders."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention
from recsys_attn.attention.layers.attention import Attention
from recsys_attn.blocks import TransformerBlock, TransformerEncoder
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.references import blocks as reference

B, S, M, E = 3, 5, 4, 8
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
MEMORY = RNG.normal(size=(B, M, E)).astype("float32")
PRESENT = RNG.random((B, S)) < 0.7
MEMORY_MASK = RNG.random((B, M)) < 0.7
PAIRS = RNG.random((B, S, M + S)) < 0.6
CAUSAL = {"class_name": "dense", "config": {"pattern": "causal"}}
BIAS = RNG.normal(size=(B, S, M + S)).astype("float32")


def encoder(mechanism: Any, count: int = 2) -> TransformerEncoder:
    blocks = [TransformerBlock(MultiHeadAttention(2, 4, mechanism), 6) for _ in range(count)]
    made = TransformerEncoder(blocks)
    made(INPUTS)
    randomise(made)
    return made


def test_a_block_attends_its_memory_under_all_masks() -> None:
    block = TransformerBlock(Attention(), 6)
    block(INPUTS)
    randomise(block)
    output = block(INPUTS, PRESENT, attention_mask=PAIRS, memory=MEMORY, memory_mask=MEMORY_MASK)
    norm = reference.norm("layer", block.sublayers[0].entry_norm.get_weights())
    x = INPUTS.astype("float64")
    keys = np.concatenate([norm(MEMORY.astype("float64")), norm(x)], axis=1)
    allowed = PAIRS & np.concatenate([MEMORY_MASK, PRESENT], axis=1)[:, None]
    expected = x + reference.attention(norm(x), PRESENT, keys, allowed)
    weights = block.feed_forward.get_weights()
    expected = reference.sublayer(
        block.sublayers[1], expected, lambda x: reference.feed_forward(weights, x)
    )
    np.testing.assert_allclose(output, expected * PRESENT[..., None], rtol=1e-4, atol=1e-4)


def test_bias_and_mask_of_pairs_agree() -> None:
    made = encoder("transformer")
    own = PAIRS[:, :, M:] | np.eye(S, dtype=bool)
    masked = made(INPUTS, attention_mask=own)
    assert_close(made(INPUTS, attention_bias=np.where(own, 0, -1e9).astype("float32")), masked)
    assert np.abs(np.asarray(masked) - np.asarray(made(INPUTS))).max() > 1e-3


def test_positions_replace_the_natural_ones() -> None:
    made = encoder("alibi")
    natural = np.arange(S)
    assert_close(made(INPUTS, positions=natural), made(INPUTS))
    assert_close(made(INPUTS, positions=natural + 7), made(INPUTS))
    far = np.asarray(made(INPUTS, positions=3 * natural))
    assert np.abs(far - np.asarray(made(INPUTS))).max() > 1e-3


@pytest.mark.parametrize("mechanism", ["transformer_xl", CAUSAL], ids=["relative", "none"])
def test_segments_over_their_memory_are_the_whole_pass(mechanism: Any) -> None:
    made = encoder(mechanism, count=3)
    whole = np.concatenate([MEMORY, INPUTS], axis=1)
    _, states = made(MEMORY, present=MEMORY_MASK, return_states=True)
    assert tuple(states.shape) == (B, 3, M, E)
    mask = np.concatenate([MEMORY_MASK, PRESENT], axis=1)
    output = made(INPUTS, present=PRESENT, memory=states, memory_mask=MEMORY_MASK)
    assert_close(output, np.asarray(made(whole, present=mask))[:, M:])
    positions = np.arange(M + S)
    again = made(
        INPUTS, present=PRESENT, memory=states, memory_mask=MEMORY_MASK, positions=positions
    )
    assert_close(again, output)


def test_masks_reach_symbolic_encoders_too() -> None:
    made = encoder("transformer")
    arrays = {
        "inputs": INPUTS,
        "attention_mask": PAIRS,
        "attention_bias": BIAS,
        "memory": np.stack([MEMORY, MEMORY], axis=1),
        "memory_mask": MEMORY_MASK,
    }
    symbols = {
        name: keras.Input(array.shape[1:], dtype=str(array.dtype), name=name)
        for name, array in arrays.items()
    }
    model = keras.Model(symbols, made(**symbols))
    assert_close(model(arrays), made(**arrays))


class OnlyMasks(keras.layers.Layer):
    def call(self, query: Any, value: Any, query_mask: Any = None, key_mask: Any = None) -> Any:
        return query


@pytest.mark.parametrize(
    ("layer", "given", "message"),
    [
        (OnlyMasks(), {"attention_mask": PAIRS}, "`attention_mask` needs an attention that"),
        (OnlyMasks(), {"positions": np.arange(S)}, "takes query_positions and key_positions"),
        (Attention("performer"), {"attention_mask": PAIRS[..., :S]}, "cannot honour"),
        (Attention(), {"memory_mask": MEMORY_MASK}, "is the mask of `memory`; give both"),
        (Attention(), {"memory": MEMORY, "memory_mask": PRESENT}, "`memory_mask` must have"),
        (Attention("local"), {"memory": MEMORY}, "is self-attention"),
    ],
)
def test_an_argument_that_is_not_honoured_is_an_error(
    layer: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TransformerBlock(layer)(INPUTS, **given)


def test_an_encoder_needs_a_memory_for_each_block() -> None:
    with pytest.raises(ValueError, match=r"each of the 2 blocks. Received: .*\(3, 4, 8\)"):
        encoder("transformer")(INPUTS, memory=MEMORY)
