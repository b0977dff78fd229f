"""DIEN's layers against their equations, and its auxiliary loss."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.models.interests import InterestEvolution, InterestExtractor
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import tensorflow
from tests.support.references.blocks import sigmoid
from tests.support.references.histories import attentional_gru, bilinear_weights, randomise

B, T, S, K = 3, 2, 5, 4


def extractor(weight: float = 1.0) -> InterestExtractor:
    layer = InterestExtractor(weight)
    layer.build((B, S, K))
    randomise(layer)
    return layer


def histories(*lengths: int) -> tuple[np.ndarray, np.ndarray]:
    events = np.random.default_rng(0).normal(size=(len(lengths), S, K)).astype("float32")
    return events, np.arange(S) < np.array(lengths)[:, None]


def test_loss_is_that_of_the_next_events_and_the_negatives() -> None:
    """One other event in the batch is the negative of every step."""
    events, present = histories(4, 1, 0)
    layer = extractor(weight=0.3)
    states = numpy(layer(events, present, training=True)).astype("float64")
    expected = []
    for t in range(3):  # the last event has no next one
        positive = sigmoid(states[0, t] @ events[0, t + 1])
        negative = sigmoid(states[0, t] @ events[1, 0])
        expected.append(-np.log(positive) - np.log(1 - negative))
    (loss,) = layer.losses
    np.testing.assert_allclose(float(loss), 0.3 * np.mean(expected), rtol=1e-5)
    assert not states[1, 1:].any()
    assert not states[2].any()


def test_negatives_are_events_of_other_requests() -> None:
    """All of them are drawn, each as often as any other."""
    _, present = histories(2, 0, 5, 1)
    request = np.repeat(np.arange(4), S)
    layer = extractor()
    draws = [layer._from_others(keras.ops.convert_to_tensor(present)) for _ in range(60)]
    found = np.stack([numpy(drawn) for drawn, _ in draws])
    for b in (0, 2, 3):
        counts = np.bincount(found[:, b].ravel(), minlength=4 * S)
        others = present.ravel() & (request != b)
        assert not counts[~others].any()
        expected = found[:, b].size / others.sum()
        np.testing.assert_allclose(counts[others], expected, atol=5 * np.sqrt(expected))


def test_no_loss_without_training_weight_or_other_requests() -> None:
    events, present = histories(4, 3)
    layer = extractor()
    layer(events, present, training=False)
    assert layer.losses == []
    without = InterestExtractor(weight=0.0)
    without(events, present, training=True)
    assert without.losses == []
    layer(events[:1], present[:1], training=True)
    np.testing.assert_array_equal([float(loss) for loss in layer.losses], [0.0])
    with pytest.raises(ValueError, match="`weight` must be a finite number of at least 0"):
        InterestExtractor(weight=-1.0)


def test_loss_teaches_events_and_no_padding() -> None:
    """The embeddings are learned by it, as those of the next events too."""
    tf = tensorflow()
    events, present = histories(4, 1, 3)
    layer, x = extractor(), tf.constant(events)
    with tf.GradientTape() as tape:
        tape.watch(x)
        layer(x, present, training=True)
        (loss,) = layer.losses
    by_events = numpy(tape.gradient(loss, x))
    assert not by_events[~present].any()
    assert np.abs(by_events[0, :4]).max(axis=-1).min() > 1e-3


@pytest.mark.parametrize("kind", ["augru", "aigru"])
def test_interests_evolve_by_the_attention_of_each_candidate(kind: str) -> None:
    rng = np.random.default_rng(2)
    events, present = histories(5, 3, 0)
    query = rng.normal(size=(B, T, K)).astype("float32")
    layer = InterestEvolution(kind)
    layer.build(query.shape, events.shape)
    randomise(layer)
    real = np.array([[True, True], [True, False], [True, True]])
    found = layer(query, events, present, query_mask=real, return_weights=True)
    output, weights = np.zeros((B, T, K)), np.zeros((B, T, S))
    for b, t in np.argwhere(real & present.any(axis=1, keepdims=True)):
        here = present[b]
        (shares,) = bilinear_weights(layer.attention, query[b, t][None], events[b, here])
        weights[b, t, here] = shares
        output[b, t] = attentional_gru(layer.gru, events[b, here], shares)
    for value, expected in zip(found, (output, weights), strict=True):
        assert_close(value, expected)


def test_attention_without_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="The evolution of interests needs the weight of each"):
        InterestEvolution(mechanism="linear_transformer")
