"""Two streams over a random order: equations in float64, limits, and what a query sees."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, MultiHeadAttention, SegmentAttention, TwoStreamEncoder
from recsys_attn.blocks import RecurrentMixer, TransformerBlock, TransformerEncoder
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import randomise
from tests.support.references import streams as reference

B, S, M, E = 2, 5, 3, 6
RNG = np.random.default_rng(11)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
MEMORY = RNG.normal(size=(B, 2, M, E)).astype("float32")
RANKS = RNG.permuted(np.tile(np.arange(S), (B, 1)), axis=1)
SEGMENTS = np.sort(RNG.integers(0, 3, size=(B, M + S)), axis=1)


def encoder(mechanism: Any = "xlnet", segments: bool = True, **options: Any) -> TransformerEncoder:
    parts = [MultiHeadAttention(2, 4, mechanism, use_bias=False) for _ in "ab"]
    options = {"placement": "post", **options}
    return TransformerEncoder(
        [TransformerBlock(SegmentAttention(p) if segments else p, 7, **options) for p in parts]
    )


def built(**options: Any) -> TwoStreamEncoder:
    layer = TwoStreamEncoder(encoder(**options))
    layer(INPUTS, RANKS)
    randomise(layer)
    return layer


def test_streams_follow_the_equations() -> None:
    layer = built()
    content, query = layer(INPUTS, RANKS, segments=SEGMENTS, memory=MEMORY)
    for row in range(B):
        arrays = (each[row].astype("float64") for each in (INPUTS, MEMORY))
        expected = reference.two_streams(layer, *arrays, RANKS[row], SEGMENTS[row])
        for stream, wanted in zip((content, query), expected, strict=True):
            np.testing.assert_allclose(stream[row], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_query_sees_exactly_the_earlier_events(placement: str) -> None:
    layer = built(placement=placement)
    content, query = (numpy(stream) for stream in layer(INPUTS, RANKS))
    for event in range(S):
        changed = INPUTS.copy()
        changed[:, event] += RNG.normal(size=(B, E))
        streams = (numpy(stream) for stream in layer(changed, RANKS))
        pairs = zip(streams, (content, query), strict=True)
        moved = [np.abs(new - old).max(-1) > 1e-6 for new, old in pairs]
        rank = RANKS[:, event, None]
        np.testing.assert_array_equal(moved[0], rank <= RANKS)
        np.testing.assert_array_equal(moved[1], rank < RANKS)


def test_the_order_of_time_is_a_causal_encoder() -> None:
    layer = built(mechanism="transformer", segments=False)
    causal = encoder(Dense(pattern="causal"), segments=False)
    causal(INPUTS)
    causal.set_weights(layer.encoder.get_weights())
    present = np.arange(S) < np.array([[S], [3]])
    content, query, states = layer(
        INPUTS, np.tile(np.arange(S), (B, 1)), present, return_states=True
    )
    expected, inner = causal(INPUTS, present=present, return_states=True)
    assert_close(content, expected)
    assert_close(states, inner)
    np.testing.assert_array_equal(numpy(query)[1, 3:], 0)


def test_events_of_one_rank_are_the_plain_encoder() -> None:
    layer = built()
    content, _ = layer(INPUTS, np.zeros((B, S), int), segments=SEGMENTS[:, M:])
    assert_close(content, layer.encoder(INPUTS, segments=SEGMENTS[:, M:]))


def test_equal_vectors_of_segments_change_nothing() -> None:
    attention = MultiHeadAttention(2, 4, "xlnet")
    layer = SegmentAttention(attention)
    layer(INPUTS)
    randomise(layer)
    layer.segments.assign(np.repeat(numpy(layer.segments)[:1], 2, axis=0))
    sessions = SEGMENTS[:, M:]
    assert_close(layer(INPUTS, query_segments=sessions), attention(INPUTS))
    layer.segments.assign(np.stack([np.ones((2, 4)), -np.ones((2, 4))]))
    output, weights = layer(INPUTS, query_segments=sessions, return_weights=True)
    assert np.abs(numpy(output) - numpy(attention(INPUTS))).max() > 1e-3
    assert weights.shape == (B, 2, S, S)


def test_streams_are_a_model_too(tmp_path: Any) -> None:
    layer = built()
    symbols = [keras.Input((S, E)), keras.Input((S,), dtype="int32")]
    model = keras.Model(symbols, layer(*symbols))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    ranks = RANKS.astype("int32")
    for actual, expected in zip(loaded([INPUTS, ranks]), layer(INPUTS, ranks), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize(
    ("attention", "error", "message"),
    [
        (MultiHeadAttention(2, 4, "transformer_xl"), ValueError, "is that of `ranks`"),
        (MultiHeadAttention(2, 4, "performer"), TypeError, "cannot honour `attention_mask`"),
        (RecurrentMixer(), TypeError, "need attention of one sequence to another"),
        (MultiHeadAttention(2, 4, "local"), TypeError, "with the mechanism Dense. Received"),
    ],
)
def test_attention_that_cannot_is_refused(attention: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        TwoStreamEncoder(TransformerEncoder([TransformerBlock(attention)]))


def test_segments_that_are_not_honoured_are_an_error() -> None:
    plain = encoder(segments=False)
    with pytest.raises(TypeError, match="`segments` needs an attention that takes query_segments"):
        plain(INPUTS, segments=SEGMENTS[:, M:])
    with pytest.raises(TypeError, match="cannot honour `attention_bias`"):
        SegmentAttention(MultiHeadAttention(2, 4, "performer"))
    with pytest.raises(TypeError, match=r"`query_segments` must be integers"):
        built().encoder(INPUTS, segments=INPUTS[..., 0])
