"""A model that learned from clicks alone has the planted relevance, an untrained one has not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.audit.relevance_curves import Measure
from pipelines.metrics import auc
from tests.pipelines.audit import planted

ROWS, BATCH, EPOCHS = 6000, 100, 8


@pytest.fixture(scope="module")
def fitted():
    return planted.fitted(planted.table())


def draw(fitted, rows, rng):
    """Inputs, and clicks whose logit grows with the number of events in the item's style."""
    ids = 2, fitted.schema["item"].size
    length = rng.integers(0, planted.LENGTH + 1, (rows, 1))
    seen = rng.integers(*ids, (rows, planted.LENGTH)) * (np.arange(planted.LENGTH) < length)
    inputs = {
        "item": rng.integers(*ids, (rows, 1)).astype("int32"),
        "device": rng.integers(2, 4, rows).astype("int32"),
        "seen": seen.astype("int32"),
    }
    chance = 1 / (1 + np.exp(2 - 2 * planted.like_events(inputs).sum(axis=1)))
    return inputs, (rng.random(rows) < chance).astype("float32")


def train(model, inputs, clicks, rng):
    optimizer = keras.optimizers.Adam(0.03)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(inputs, clicks):
        with tf.GradientTape() as tape:
            logits = model(inputs)["click"][:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        pairs = zip(gradients, model.trainable_variables, strict=True)
        optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])

    for _ in range(EPOCHS):
        for rows in np.split(rng.permutation(ROWS), ROWS // BATCH):
            step({name: array[rows] for name, array in inputs.items()}, clicks[rows])


def separation(model, inputs):
    """By method, the AUC with which the relevance of events tells the like ones."""
    found, _ = Measure(model, propagate=True)(inputs)
    events = found["events/history"]
    last = np.maximum((inputs["seen"] != 0).sum(axis=1, keepdims=True) - 1, 0)
    places = np.maximum(last - np.arange(planted.LENGTH), 0)
    like = np.take_along_axis(planted.like_events(inputs), places, axis=1)[events.there]
    return {name: auc(like, each[0][events.there]) for name, each in events.by_method.items()}


@pytest.mark.thorough
def test_training_gives_the_planted_relevance(fitted):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    model = planted.untrained(fitted)
    held_out, _ = draw(fitted, 200, rng)
    before = separation(model, held_out)
    train(model, *draw(fitted, ROWS, rng), rng)
    after = separation(model, held_out)
    assert len(after) == 6
    for method in after:
        assert after[method] > 0.95, method
        assert 0.3 < before[method] < 0.75, method
