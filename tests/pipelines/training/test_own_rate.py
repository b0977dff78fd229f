"""Some variables of an optimizer have a learning rate of their own."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from pipelines.experiment.training_options import TrainingOptions
from pipelines.training.optimizer import LearningRate, OwnRate, kind_of, make_optimizer

RATE, OWN = 0.02, 0.003


def changes(share: float, own: bool, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The steps of two variables by one gradient, of which the first may have its own rate."""
    variables = [keras.Variable(np.full(3, 2.0, "float32"), name=name) for name in "ab"]
    variables += [keras.Variable(np.ones((5, 2), "float32"), name="table_2")]
    made = TrainingOptions(learning_rate=RATE, **options)
    optimizer = make_optimizer(made, variables, OwnRate(variables[:1], OWN) if own else None)
    LearningRate(optimizer, made).set(share)
    gradient = keras.ops.convert_to_tensor(np.array([0.5, -1.0, 3.0], "float32"))
    optimizer.apply([gradient, gradient, keras.ops.zeros((5, 2))], variables)
    first, second = (np.asarray(variable) - 2.0 for variable in variables[:2])
    return first, second


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["lazy_adam", "adam", "adagrad", "sgd"])
def test_steps_have_the_ratio_of_the_rates(name: str, decay: float, share: float) -> None:
    """Of the first step, also with weight decay and by a schedule; others step as without it."""
    options = {"optimizer": name, "weight_decay": decay, "embeddings_l2": 0.0}
    own, other = changes(share, own=True, **options)
    plain, again = changes(share, own=False, **options)
    np.testing.assert_array_equal(other, again)
    np.testing.assert_array_equal(plain, again)
    np.testing.assert_allclose(own / other, OWN / RATE, rtol=0.02)  # decay follows the step


def test_first_step_of_adam_is_the_rate() -> None:
    own, other = changes(1.0, own=True, optimizer="adam")
    np.testing.assert_allclose(own, [-OWN, OWN, -OWN], rtol=1e-3)
    np.testing.assert_allclose(other, [-RATE, RATE, -RATE], rtol=1e-3)


@pytest.mark.parametrize("own", [RATE, OWN])
def test_weight_decay_is_taken_once(own: float) -> None:
    """Without a gradient the step is the decay: also of a rate that equals the other one."""
    variable = keras.Variable(np.full(3, 2.0, "float32"))
    options = TrainingOptions(learning_rate=RATE, optimizer="sgd", weight_decay=0.5)
    optimizer = make_optimizer(options, [variable], OwnRate([variable], own))
    optimizer.apply([keras.ops.zeros(3)], [variable])
    np.testing.assert_allclose(variable, 2.0 * (1 - 0.5 * own), rtol=1e-6)


def test_the_kind_of_the_optimizer_stays() -> None:
    """So that a warm start finds the same slots."""
    variable = keras.Variable(np.ones(3, "float32"))
    found = make_optimizer(TrainingOptions(), [variable], OwnRate([variable], OWN))
    assert kind_of(found) == kind_of(make_optimizer(TrainingOptions(), [variable])) == "Adam"
