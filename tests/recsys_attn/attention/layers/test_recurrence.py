"""One event at a time, causal layers equal themselves over the whole sequence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, HeadGroups, Linear, MultiHeadAttention, Recurrence, presets
from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.patterns import Causal, Dilated, Global, Local, PerHead
from recsys_attn.attention.positions import (
    AxialPositions,
    CoordinatePositions,
    LearnedPositions,
    SinusoidalPositions,
)
from recsys_attn.attention.routers import Blocks
from recsys_attn.attention.scores import QkNorm, SoftCap, Temperature
from recsys_attn.blocks import (
    ConvolutionMixer,
    GatingMixer,
    RecurrentMixer,
    SegmentMemory,
    SqueezeExcitation,
    TransformerBlock,
    TransformerEncoder,
)
from tests.support.arrays import assert_close, numpy
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


CAUSAL = "causal"
ATTENTION = {
    "causal": Dense(pattern=CAUSAL),
    "window": Dense(pattern=Local(2, 0)),
    "rotary": Dense("rotary", CAUSAL),
    "T5": presets.t5(8, 5, pattern=CAUSAL),
    "ALiBi": presets.alibi(pattern=Local(3, 0)),
    "Transformer-XL": presets.transformer_xl(4),
    "synthesizer": presets.synthesizer("random", S, pattern=CAUSAL),
    "shared query and key": Dense("shared_dot", CAUSAL),
    "two patterns": Dense(pattern=PerHead((Dilated(2, 2) & Causal(), Local(1, 0)))),
    "sparse": presets.sparse_transformer(3),
    "Gaussian": Dense("general", CAUSAL, weighting="gaussian"),
    "HSTU": presets.hstu(pattern=CAUSAL),
    "normalised, capped, with a sink": Dense(
        SoftCap(Temperature(QkNorm("rotary"))), CAUSAL, weighting="attention_sink"
    ),
    "blocks": Routed(Blocks(3), "rotary", Local(2, 0)),
    "first block": Routed(Blocks(2, first=1), pattern=Causal()),
    "global tokens": Routed(
        Blocks(2, after=0, tokens=(1, 3)), pattern=(Local(2, 0) | Global((1, 3))) & Causal()
    ),
    "linear": Linear(causal=True),
    "fading": Linear(causal=True, decay="gate"),
}
MIXERS = {
    "gru": lambda: RecurrentMixer(),
    "lstm": lambda: RecurrentMixer("lstm", units=3),
    "convolution": lambda: ConvolutionMixer(3, dilation=2, causal=True),
    "gMLP": lambda: GatingMixer(S, attention_size=3, causal=True),
}


def encoder_of(name: str, **options: Any) -> TransformerEncoder:
    """Two blocks with an attention or a mixer, and random weights."""
    parts = [
        MIXERS[name]()
        if name in MIXERS
        else MultiHeadAttention(2, 4, presets.fresh(ATTENTION[name]))
        for _ in range(2)
    ]
    encoder = TransformerEncoder([TransformerBlock(part, 6, **options) for part in parts])
    encoder(X, **({"condition": X[:, 0]} if options else {}))
    randomise(encoder)
    return encoder


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A graph of TensorFlow or a program of JAX; on other backends the function itself."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    return function


def stepped(recurrence: Recurrence, events: Any, present: Any, **given: Any) -> np.ndarray:
    """The outputs for (B, S, E), event by event."""
    state = recurrence.initial_state(len(events), length=S)
    outputs = []
    for t in range(events.shape[1]):
        output, state = recurrence.step(state, events[:, t : t + 1], present[:, t], **given)
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1)


# Rows of different lengths, and no event at all in one step.
LENGTHS = np.arange(S) < np.array([[S], [4]])


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", [*ATTENTION, *MIXERS])
def test_an_encoder_steps_as_over_the_whole_sequence(name: str) -> None:
    encoder = encoder_of(name)
    output = stepped(Recurrence(encoder), X, LENGTHS)
    np.testing.assert_allclose(output, encoder(X, present=LENGTHS), rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("segment", [None, 2])
@pytest.mark.parametrize("memory", [1, 3, S])
@pytest.mark.parametrize("name", ["Transformer-XL", "sparse"])
def test_segments_step_as_over_the_whole_sequence(
    name: str, memory: int, segment: int | None
) -> None:
    """Also where the memory has lost events, and with a pattern that counts from its begin."""
    layer = SegmentMemory(encoder_of(name), memory, segment)
    expected = layer(X, present=LENGTHS)
    recurrence = Recurrence(layer)
    output = stepped(recurrence, X, LENGTHS)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    most = S if segment is None else min(S, memory + segment)
    assert {state.keys.shape[1] for state in recurrence.initial_state(1, S)} == {most}


@pytest.mark.parametrize("mechanism", ["rotary", "gated_linear_attention"])
def test_heads_with_shared_keys_have_a_small_cache(mechanism: str) -> None:
    options = {"pattern": "causal"} if mechanism == "rotary" else {"causal": True}
    part = {"class_name": mechanism, "config": options}
    layer = MultiHeadAttention([4, [0, 0, 0, 1]], [6, 3], part)
    layer(X)
    randomise(layer)
    recurrence = Recurrence(layer)
    assert_close(stepped(recurrence, X, np.ones_like(LENGTHS)), layer(X))
    if mechanism == "rotary":
        state = recurrence.initial_state(B, length=S)
        assert (state.keys.shape, state.values.shape) == ((B, S, 2, 6), (B, S, 2, 3))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["window", "blocks", "linear", *MIXERS])
def test_half_precision_steps_too(name: str) -> None:
    encoder = encoder_of(name)
    config = keras.saving.serialize_keras_object(encoder)
    config["config"]["dtype"] = "mixed_bfloat16"
    text = json.dumps(config).replace('"float32"', '"mixed_bfloat16"')
    half = keras.saving.deserialize_keras_object(json.loads(text))
    half(X)
    half.set_weights(encoder.get_weights())
    output = stepped(Recurrence(half), X, LENGTHS)
    exact = numpy(encoder(X, present=LENGTHS))
    whole = np.abs(numpy(half(X, present=LENGTHS)) - exact).max()
    assert 0 < whole < 0.2
    assert np.abs(output - exact).max() < 2 * whole  # no less exact than the whole pass


def test_grouped_queries_step_too() -> None:
    layer = MultiHeadAttention([4, 2], [4, 3], Dense("rotary", CAUSAL))
    layer(X)
    randomise(layer)
    assert_close(stepped(Recurrence(layer), X, np.ones_like(LENGTHS)), layer(X))


def test_rows_without_an_event_keep_their_state() -> None:
    recurrence = Recurrence(encoder_of("rotary"))
    late = np.roll(LENGTHS, 2, axis=1)
    late[0] = True
    expected = stepped(recurrence, X, np.ones_like(LENGTHS))
    moved = np.concatenate([X[:1], np.roll(X[1:], 2, axis=1)])
    np.testing.assert_allclose(
        stepped(recurrence, moved, late)[1, 2:6], expected[1, :4], rtol=1e-5, atol=1e-5
    )


def test_shared_blocks_and_conditions_step_too() -> None:
    encoder = encoder_of("rotary", norm="conditional")
    condition = X[:, 0]
    output = stepped(Recurrence(encoder), X, LENGTHS, condition=condition)
    assert_close(output, encoder(X, present=LENGTHS, condition=condition))
    shared = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4, "transformer_xl"))], 3)
    shared(X)
    assert_close(stepped(Recurrence(shared), X, LENGTHS), shared(X, present=LENGTHS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "positions",
    [
        LearnedPositions(S, from_end=False),
        AxialPositions((2, 4), from_end=False),
        CoordinatePositions(S, from_end=False),
        SinusoidalPositions(interleaved=False),
    ],
    ids=["learned", "axial", "coordinates", "sinusoidal"],
)
def test_positions_of_events_are_counted(positions: Any) -> None:
    encoder = encoder_of("causal")
    expected = encoder(positions(X, present=LENGTHS), present=LENGTHS)
    assert_close(stepped(Recurrence(encoder, positions), X, LENGTHS), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["causal", "window", "blocks", "linear"])
def test_the_state_is_bounded(name: str) -> None:
    recurrence = Recurrence(encoder_of(name))
    state = recurrence.initial_state(B, length=5)
    events = {"causal": 5, "window": 3, "blocks": 3}.get(name)
    for _ in range(2 * S):
        _, state = recurrence.step(state, X[:, :1])
        assert events is None or state[0].keys.shape == (B, events, 2, 4)
    sizes = [leaf.shape for leaf in keras.tree.flatten(recurrence.initial_state(B, length=5))]
    assert [leaf.shape for leaf in keras.tree.flatten(state)] == sizes


def test_a_full_cache_is_a_window() -> None:
    encoder = encoder_of("causal")
    windowed = TransformerEncoder(
        [TransformerBlock(MultiHeadAttention(2, 4, Dense(pattern=Local(2, 0))), 6) for _ in "ab"]
    )
    windowed(X)
    windowed.set_weights(encoder.get_weights())
    recurrence = Recurrence(encoder)
    state = recurrence.initial_state(B, length=3)
    for t in range(S):
        output, state = recurrence.step(state, X[:, t : t + 1])
    assert_close(output[:, 0], windowed(X)[:, -1])


@pytest.mark.parametrize("name", ["synthesizer", "gMLP"])
def test_more_events_than_weights_are_not_a_number(name: str) -> None:
    recurrence = Recurrence(encoder_of(name))
    state = recurrence.initial_state(B)
    for t in range(S + 1):
        output, state = recurrence.step(state, X[:, :1])
        assert np.isnan(numpy(output)).all() == (t == S)


def test_a_step_compiles() -> None:
    recurrence = Recurrence(encoder_of("window"))
    step = compiled(recurrence.step)
    state = recurrence.initial_state(B)
    for t in range(S):
        output, state = step(state, keras.ops.convert_to_tensor(X[:, t : t + 1]))
    assert_close(output[:, 0], recurrence.layer(X)[:, -1])


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (MultiHeadAttention(2, 3), "Dense is not causal here, so a later event changes"),
        (TransformerBlock(MultiHeadAttention(2, 3, Linear())), "Linear is not causal here"),
        (TransformerBlock(MultiHeadAttention(2, 3, "reformer")), "Routed has no state"),
        (MultiHeadAttention(2, 3, "linformer"), "Compressed has no state that one more event"),
        (
            MultiHeadAttention(2, 3, HeadGroups([Dense(pattern=CAUSAL), Linear(causal=True)])),
            "HeadGroups has no state",
        ),
        (RecurrentMixer(bidirectional=True), "RecurrentMixer is not causal here"),
        (TransformerBlock(SqueezeExcitation("channels")), "Received: SqueezeExcitation"),
        (Attention(), "Only MultiHeadAttention.*Received: Attention"),
    ],
)
def test_what_cannot_step_says_why(layer: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Recurrence(layer)


def test_positions_from_the_end_cannot_step() -> None:
    positions = LearnedPositions(S)
    positions(X)
    with pytest.raises(TypeError, match="each new event moves"):
        Recurrence(encoder_of("causal"), positions)
    with pytest.raises(TypeError, match="those of a score belong to the layer"):
        Recurrence(encoder_of("causal"), "rotary")


def test_a_cache_needs_a_bound() -> None:
    with pytest.raises(ValueError, match=r"`length` is needed.*Causal\(\)"):
        Recurrence(encoder_of("causal")).initial_state(B)


def test_other_states_are_not_read() -> None:
    recurrence = Recurrence(encoder_of("causal").blocks[0].attention)
    with pytest.raises(TypeError, match="Linear, whose state"):
        recurrence.read(recurrence.initial_state(B, length=S), X)
    candidates = Recurrence(attention("linear_transformer", causal=False))
    with pytest.raises(TypeError, match="Linear is not causal here"):
        candidates.step(candidates.initial_state(B), X[:, :1])


@pytest.mark.sampled(3)
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
