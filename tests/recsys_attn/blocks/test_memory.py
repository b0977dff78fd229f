"""Masks, biases, positions and memory reach the attention of blocks and encoders."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention
from recsys_attn.attention.layers.attention import Attention
from recsys_attn.blocks import (
    RecurrentMixer,
    SegmentMemory,
    TransformerBlock,
    TransformerEncoder,
)
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import randomise, tensorflow
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
WHOLE = np.concatenate([MEMORY, INPUTS, INPUTS[:, ::-1]], axis=1)
LENGTHS = np.arange(WHOLE.shape[1]) < np.array([[14], [3], [9]])


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


def windowed(blocks: int = 2, **options: Any) -> SegmentMemory:
    """A memory around an encoder that sees the past, with random weights."""
    layers = [
        TransformerBlock(MultiHeadAttention(2, 4, "transformer_xl"), 6) for _ in range(blocks)
    ]
    layer = SegmentMemory(TransformerEncoder(layers), **options)
    layer(INPUTS)
    randomise(layer)
    return layer


def test_segments_follow_the_equation() -> None:
    size, kept = 3, 2
    layer = SegmentMemory(
        TransformerEncoder([TransformerBlock(Attention(), 6) for _ in "ab"]), kept, size
    )
    layer(WHOLE)
    randomise(layer)
    memories = [np.zeros((B, 0, E)), np.zeros((B, 0, E))]
    outputs = []
    for start in range(0, WHOLE.shape[1], size):
        x = WHOLE[:, start : start + size].astype("float64")
        for index, block in enumerate(layer.blocks):
            norm = reference.norm("layer", block.sublayers[0].entry_norm.get_weights())
            keys = np.concatenate([memories[index], x], axis=1)
            memories[index] = keys[:, -kept:]
            allowed = np.ones((B, x.shape[1], keys.shape[1]), bool)
            ones = np.ones(x.shape[:2], bool)
            x = x + reference.attention(norm(x), ones, norm(keys), allowed)
            weights = block.feed_forward.get_weights()
            x = reference.sublayer(
                block.sublayers[1], x, lambda x, w=weights: reference.feed_forward(w, x)
            )
        norm = reference.norm("layer", layer.encoder.final_norm.get_weights())
        outputs.append(norm(x))
    np.testing.assert_allclose(layer(WHOLE), np.concatenate(outputs, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("segment", [1, 4, 14, 20])
def test_a_long_memory_is_the_whole_pass(segment: int) -> None:
    layer = windowed(memory=14, segment=segment)
    expected = layer.encoder(WHOLE, present=LENGTHS)
    assert_close(layer(WHOLE, present=LENGTHS), expected)


def test_the_memory_goes_from_call_to_call() -> None:
    layer = windowed(memory=4)
    state, outputs = layer.initial_state(B), []
    parts = np.split(WHOLE, [5, 8], axis=1), np.split(LENGTHS, [5, 8], axis=1)
    for x, present in zip(*parts, strict=True):
        output, state = layer(x, state, present, return_state=True)
        outputs.append(numpy(output))
    # Row 1 has 3 events and row 0 more than the memory holds, the latest at the end.
    np.testing.assert_array_equal(numpy(state.mask)[1], [False, True, True, True])
    np.testing.assert_array_equal(numpy(state.states)[1, 0, 1:], WHOLE[1, :3])
    np.testing.assert_array_equal(numpy(state.states)[0, 0], WHOLE[0, -4:])
    longer = windowed(memory=14)
    longer.set_weights(layer.get_weights())
    assert_close(outputs[0], longer(WHOLE[:, :5], present=LENGTHS[:, :5]))


def test_a_row_of_another_user_starts_afresh() -> None:
    layer = windowed(memory=4)
    _, state = layer(MEMORY, user=np.array([3, 4, 5]), return_state=True)
    output, state = layer(INPUTS, state, user=np.array([3, 7, 5]), return_state=True)
    kept, fresh = layer(INPUTS, layer(MEMORY, return_state=True)[1]), layer(INPUTS)
    for row, expected in enumerate((kept, fresh, kept)):
        assert_close(output[row], expected[row])
    np.testing.assert_array_equal(numpy(state.user), [3, 7, 5])


def test_no_gradient_passes_the_memory() -> None:
    tf = tensorflow()
    layer = windowed(memory=4, segment=4)
    x = tf.constant(WHOLE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.square(layer(x, training=True)[:, 8:]))
    gradient = tape.gradient(loss, x).numpy()
    np.testing.assert_array_equal(gradient[:, :8], 0)
    assert (gradient[:, 8:] != 0).any()


def test_a_graph_of_unknown_length_loops() -> None:
    tf = tensorflow()
    layer = windowed(memory=4, segment=4)
    call = tf.function(
        lambda x, present: layer(x, present=present),
        input_signature=[
            tf.TensorSpec((None, None, E), "float32"),
            tf.TensorSpec((None, None), "bool"),
        ],
    )
    for length in (14, 5, 3):
        x, present = WHOLE[:, :length], LENGTHS[:, :length]
        assert_close(call(x, present), layer(x, present=present))


def test_a_memory_is_an_input_and_an_output_of_a_model() -> None:
    layer = windowed(memory=4)
    state = layer(MEMORY, return_state=True)[1]
    arrays = [INPUTS, *(numpy(each) for each in state)]
    symbols = [keras.Input(array.shape[1:], dtype=str(array.dtype)) for array in arrays]
    output, new = layer(symbols[0], tuple(symbols[1:]), return_state=True)
    expected = layer(INPUTS, state, return_state=True)
    for actual, wanted in zip(
        keras.Model(symbols, [output, *new])(arrays), keras.tree.flatten(expected), strict=True
    ):
        assert_close(actual, wanted)


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (MultiHeadAttention(2, 4, "local"), "Routed"),
        (MultiHeadAttention(2, 4, {"class_name": "linear", "config": {"causal": True}}), "Linear"),
        (RecurrentMixer(), "RecurrentMixer"),
    ],
)
def test_attention_without_a_memory_is_refused(attention: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} has one sequence and no memory before it"):
        SegmentMemory(TransformerEncoder([TransformerBlock(attention)]), 4)


def test_users_are_whole_numbers() -> None:
    with pytest.raises(TypeError, match=r"`user` must be integers \(B,\)"):
        windowed(memory=4)(INPUTS, user=np.ones(B, "float32"))
