"""Pooling by attention: HAN's equations, latent queries, and learned tokens in front."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import AttentionPooling, Dense, Linear, MultiHeadAttention, PrependTokens
from recsys_attn.attention.patterns import Local, Prepended
from tests.support import reference
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import randomise
from tests.support.refusals import refusals

B, D, S, E = 2, 3, 5, 7
RNG = np.random.default_rng(0)
WORDS = RNG.normal(size=(B, D, S, E)).astype("float32")
PRESENT = RNG.random((B, D, S)) < 0.6
PRESENT[0, 1] = False  # a sentence of padding only


def han(x: np.ndarray, present: np.ndarray, layer: AttentionPooling) -> np.ndarray:
    """`sum_s softmax_s(q . tanh(W x_s + b)) x_s` of one set, in float64."""
    query, kernel, bias = (weight.astype("float64")[0] for weight in layer.get_weights())
    logits = np.array([query @ np.tanh(kernel @ word + bias) for word in x])
    return reference.softmax_weights(logits[None], present[None])[0] @ x


def test_two_levels_are_hierarchical_attention() -> None:
    words, sentences = AttentionPooling(), AttentionPooling()
    by_sentence = words(WORDS, present=PRESENT)
    document = sentences(by_sentence, present=PRESENT.any(-1))
    for layer in (words, sentences):
        randomise(layer)
    by_sentence = numpy(words(WORDS, present=PRESENT))
    document = numpy(sentences(by_sentence, present=PRESENT.any(-1)))
    for b in range(B):
        pooled = np.array([han(WORDS[b, d], PRESENT[b, d], words) for d in range(D)])
        assert_close(by_sentence[b], pooled)
        expected = han(pooled, PRESENT[b].any(-1), sentences)
        assert_close(document[b], expected)


def test_a_sentence_of_padding_weighs_nothing() -> None:
    layer = AttentionPooling()
    output, weights = layer(WORDS, present=PRESENT, return_weights=True)
    assert weights.shape == (B, D, S)
    np.testing.assert_array_equal(numpy(output)[0, 1], 0)
    np.testing.assert_array_equal(numpy(weights)[~PRESENT], 0)


def test_the_tanh_is_there() -> None:
    layer = AttentionPooling()
    expected = numpy(layer(WORDS))
    plain = AttentionPooling(Dense({"class_name": "general", "config": {"use_bias": True}}))
    plain(WORDS)
    plain.set_weights(layer.get_weights())
    assert np.abs(numpy(plain(WORDS)) - expected).max() > 1e-3


@pytest.mark.parametrize("num_queries", [1, 4])
def test_latent_queries_are_attention_of_learned_vectors(num_queries: int) -> None:
    layer = AttentionPooling("transformer", num_queries=num_queries, num_heads=2, head_dim=3)
    output, weights = layer(WORDS, present=PRESENT, return_weights=True)
    assert output.shape == (B, D, num_queries, E)
    assert weights.shape == (B, D, 2, num_queries, S)
    for b, d in np.ndindex(B, D):
        alone = layer.attention(
            numpy(layer.query)[None], WORDS[b : b + 1, d], key_mask=PRESENT[b : b + 1, d]
        )
        assert_close(output[b, d], alone[0])


def test_every_query_has_a_context_vector_of_its_own() -> None:
    layer = AttentionPooling(num_queries=3)
    layer(WORDS)
    randomise(layer)
    query, *weights = layer.get_weights()
    together = numpy(layer(WORDS, present=PRESENT))
    for index in range(3):
        alone = AttentionPooling()
        alone(WORDS)
        alone.set_weights([query[index : index + 1], *weights])
        np.testing.assert_allclose(
            together[:, :, index], alone(WORDS, present=PRESENT), rtol=1e-5, atol=1e-6
        )


SUMMARY = {"class_name": "memory_compressed", "config": {"stride": S}}


@pytest.mark.parametrize("mechanism", ["afm", SUMMARY], ids=str)
def test_equal_latent_queries_are_refused(mechanism: Any) -> None:
    with pytest.raises(ValueError, match=r"would get the same result.*num_queries=3"):
        AttentionPooling(mechanism, num_queries=3)(WORDS)
    assert AttentionPooling(mechanism)(WORDS).shape == (B, D, E)


POSITIONAL = [
    "alibi",
    "hstu",
    "rotary",
    "t5",
    "transformer_xl",
    "xlnet",
    {"class_name": "sparse_transformer", "config": {"stride": 2}},
    {"class_name": "local", "config": {"window": 2}},
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [0, 3, 4, 6, 8]])
@pytest.mark.parametrize("mechanism", POSITIONAL, ids=str)
def test_padding_changes_nothing_wherever_it_stands(mechanism: Any, places: list[int]) -> None:
    layer = AttentionPooling(mechanism, num_queries=2, num_heads=2, head_dim=4)
    expected = numpy(layer(WORDS[:, 0]))
    randomise(layer)
    expected = numpy(layer(WORDS[:, 0]))
    padded = np.full((B, 9, E), 3.0, "float32")
    padded[:, places] = WORDS[:, 0]
    present = np.zeros((B, 9), bool)
    present[:, places] = True
    assert_close(layer(padded, present=present), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", POSITIONAL, ids=str)
def test_order_of_latent_queries_changes_nothing(mechanism: Any) -> None:
    layer = AttentionPooling(mechanism, num_queries=4, num_heads=2, head_dim=4)
    layer(WORDS)
    randomise(layer)
    before, order = numpy(layer(WORDS)), [2, 0, 3, 1]
    layer.query.assign(numpy(layer.query)[order])
    np.testing.assert_allclose(layer(WORDS), before[:, :, order], rtol=1e-5, atol=1e-6)


def test_the_mask_of_keras_counts_at_every_level() -> None:
    words = WORDS * PRESENT[..., None]
    layers = AttentionPooling(), AttentionPooling()
    expected = layers[1](layers[0](words, present=PRESENT), present=PRESENT.any(-1))
    found = layers[1](layers[0](keras.layers.Masking()(words)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_pooling_does_not_see_the_order() -> None:
    layer = AttentionPooling("transformer", num_queries=2)
    order = RNG.permutation(S)
    assert_close(
        layer(WORDS[:, :, order], present=PRESENT[..., order]), layer(WORDS, present=PRESENT)
    )


def test_prepended_tokens_carry_events_past_a_window() -> None:
    pattern = Prepended(1, Local(1))
    layers = [PrependTokens(1, MultiHeadAttention(2, 3, Dense(pattern=pattern))) for _ in range(2)]
    x = RNG.normal(size=(B, 9, E)).astype("float32")

    def twice(x: np.ndarray) -> np.ndarray:
        # The second layer's token reads what the first layer's events have, not its tokens.
        attention = layers[0].attention
        tokens = np.repeat(numpy(layers[0].tokens)[None], B, 0)
        both = attention(np.concatenate([tokens, x], 1))
        return numpy(attention(both))[:, 1:]

    once = numpy(layers[0](x))
    far = x.copy()
    far[:, -1] += 5
    assert_close(numpy(layers[0](far))[:, :7], once[:, :7])
    assert np.abs(twice(far)[:, 0] - twice(x)[:, 0]).max() > 1e-3


def test_prepended_tokens_equal_a_longer_sequence() -> None:
    layer = PrependTokens(2, MultiHeadAttention(2, 3))
    x, present = WORDS[:, 0], PRESENT[:, 2]
    rest, tokens = layer(x, present=present, return_tokens=True)
    longer = np.concatenate([np.repeat(numpy(layer.tokens)[None], B, 0), x], 1)
    mask = np.concatenate([np.ones((B, 2), bool), present], 1)
    expected = numpy(layer.attention(longer, query_mask=mask))
    assert_close(rest, expected[:, 2:])
    assert_close(tokens, expected[:, :2])


test_wrong_use_is_one_sentence = refusals(
    (lambda: AttentionPooling(num_queries=0), "`num_queries` must be a positive integer"),
    (lambda: AttentionPooling(num_heads=2), "`num_heads` and `head_dim` go together"),
    (lambda: AttentionPooling()(WORDS[0, 0]), r"must have shape \(..., S, E\)"),
    (
        lambda: AttentionPooling()(WORDS, present=PRESENT[0]),
        "`present` must have the shape of `inputs`",
    ),
    (
        lambda: AttentionPooling()(keras.Input((3, 5)), present=keras.Input((2,), dtype="bool")),
        r"`present` must have .*, \(None, 3\)\. Received: present.shape=\(None, 2\)",
    ),
    (
        lambda: PrependTokens(2, MultiHeadAttention(2, 3))(WORDS[:, 0], present=PRESENT[:, 0, 1:]),
        "`present` must have the shape of `inputs`",
    ),
    (
        lambda: PrependTokens(2, MultiHeadAttention(2, 3))(
            keras.Input((3, 5)), present=keras.Input((2,), dtype="bool")
        ),
        r"`present` must have .*, \(None, 3\)\. Received: present.shape=\(None, 2\)",
    ),
    (lambda: PrependTokens(0, MultiHeadAttention(2, 3)), "`count` must be a positive"),
)


@pytest.mark.parametrize(
    "mechanism", ["transformer_xl", Dense(pattern="causal"), Linear(causal=True)], ids=str
)
def test_tokens_that_see_no_event_are_not_returned(mechanism: Any) -> None:
    layer = PrependTokens(2, MultiHeadAttention(2, 4, mechanism))
    assert layer(WORDS[:, 0]).shape == (B, S, E)  # events may look at learned tokens
    with pytest.raises(ValueError, match="`return_tokens` needs tokens that see the events"):
        layer(WORDS[:, 0], return_tokens=True)
