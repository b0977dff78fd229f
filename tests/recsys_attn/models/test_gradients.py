"""Outside of training, the gradient of a logit has all that moves it; relevances need that."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import Dense, MultiHeadAttention
from recsys_attn.blocks import SegmentMemory, TransformerBlock, TransformerEncoder
from recsys_attn.embeddings import CANDIDATE_MASK
from tests.support.layer_case import tensorflow
from tests.support.small_models import SCHEMA, SMALL, B, T, inputs

STEP = 3e-4  # few activations of ReLU change in it
NAMES = ("pepnet", "stem", "aitm", "finalnet")  # they stop gradients, or learn of each other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_slopes_of_the_logits(name: str) -> None:
    """Along three random directions of all embeddings: fields, events and queries."""
    tf = tensorflow()
    options: Any = SMALL[name]
    model = models.get(name)(SCHEMA, **options)
    rng = np.random.default_rng(5)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(scale=0.2, size=weight.shape))
    embedded = model.embedding({**inputs(), CANDIDATE_MASK: np.ones((B, T), bool)})
    leaves = [x for x in tf.nest.flatten(embedded) if x.dtype.is_floating]

    def logits(vectors: list[Any]) -> Any:
        given = iter(vectors)
        parts = [next(given) if x.dtype.is_floating else x for x in tf.nest.flatten(embedded)]
        found = model.tower(tf.nest.pack_sequence_as(embedded, parts), training=False)
        return tf.add_n([tf.reduce_sum(tf.cast(x, "float64")) for x in found.values()])

    known = [x.numpy() for x in leaves]  # a missing value is zeros, where ReLU has no slope
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        total = logits(leaves)
    zeros = tf.UnconnectedGradients.ZERO
    gradients = tape.gradient(total, leaves, unconnected_gradients=zeros)
    slopes, expected = [], []
    for _ in range(3):
        directions = [rng.normal(size=x.shape).astype("float32") * (x != 0) for x in known]
        ahead, behind = (
            logits([x + sign * STEP * d for x, d in zip(leaves, directions, strict=True)])
            for sign in (1, -1)
        )
        expected.append(float(ahead - behind) / (2 * STEP))
        pairs = zip(gradients, directions, strict=True)
        slopes.append(sum(float(keras.ops.sum(g * d)) for g, d in pairs))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(np.array(slopes) / scale, np.array(expected) / scale, atol=0.03)


@pytest.mark.parametrize("training", [False, True])
def test_a_memory_has_a_gradient_outside_of_training(training: bool) -> None:
    tf = tensorflow()
    block = TransformerBlock(MultiHeadAttention(2, 4, Dense(pattern="causal")))
    layer = SegmentMemory(TransformerEncoder([block]), memory=3, segment=3)
    events = tf.constant(np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(events)
        total = tf.reduce_sum(layer(events, training=training)[:, 5] ** 3)
    of_first_segment = tape.gradient(total, events)[:, :3]
    assert bool(np.abs(of_first_segment).max() > 1e-3) is not training
