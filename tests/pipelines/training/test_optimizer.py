"""The optimizers of Keras on lookups: their steps are those by the whole gradient."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.experiment.training_options import TrainingOptions
from pipelines.training.optimizer import make_optimizer

OWN = {
    "adam": keras.optimizers.Adam,
    "adagrad": keras.optimizers.Adagrad,
    "sgd": keras.optimizers.SGD,
}
IDS = [1, 4, 1, 1, 2, 4]
VALUES = np.random.default_rng(0).normal(size=(len(IDS), 2)).astype("float32")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", list(OWN))
def test_repeated_lookups_of_a_row_are_added_up(name: str, clip: float | None) -> None:
    sums = np.zeros((5, 2), "float32")
    np.add.at(sums, IDS, VALUES)
    ours, plain = (keras.Variable(np.ones((5, 2), "float32"), name="table_2") for _ in range(2))
    given = {"optimizer": name, "learning_rate": 0.1, "clip_norm": clip}
    options = TrainingOptions.model_validate(given)
    optimizer, other = make_optimizer(options, [ours]), OWN[name](0.1, global_clipnorm=clip)
    for _ in range(3):
        optimizer.apply([tf.IndexedSlices(VALUES, IDS, (5, 2))], [ours])
        other.apply([tf.constant(sums)], [plain])
    np.testing.assert_allclose(ours.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)
