"""Learned weights of tasks: the papers' equations, their limits, and micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.experiment.training_options import TrainingOptions
from pipelines.training import check_model
from pipelines.training.task_weights import (
    GradNormWeights,
    TaskWeights,
    UncertaintyWeights,
    make_task_weights,
    slopes_of,
)
from pipelines.training.tower_gradient import TowerGradient, TowerResult
from recsys_attn.models import logistic_regression, mlp
from recsys_attn.schema import Categorical, Schema, Task
from tests.pipelines.training.trainer import Trainer
from tests.support.experiments import load
from tests.support.small_models import SMALL, inputs, make

TASKS = (Task("click"), Task("buy"))
B, T, D, U = 11, 3, 5, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
LABELS = {
    "click": RNG.choice([0, 1, np.nan], (B, T)).astype("float32"),
    "buy": (RNG.random((B, T)) < 0.3).astype("float32"),
}
TOTALS = {task: float((~np.isnan(label)).sum()) for task, label in LABELS.items()}


def loss_of_gradnorm(
    numbers: np.ndarray, norms: np.ndarray, losses: np.ndarray, first: np.ndarray, alpha: float
) -> Any:
    """The paper's loss as a function of the numbers; the targets stay those of `numbers`."""

    def of_tasks(moved: np.ndarray) -> np.ndarray:
        return len(norms) * np.exp(moved) / np.exp(moved).sum() * norms

    left = losses / first
    targets = of_tasks(numbers).mean() * (left / left.mean()) ** alpha
    return lambda moved: np.abs(of_tasks(moved) - targets).sum()


def test_slopes_of_gradnorm_are_those_of_its_loss() -> None:
    rng = np.random.default_rng(1)
    numbers, norms, losses, first = rng.normal(size=5), *rng.uniform(0.2, 3, (3, 5))
    loss, step = loss_of_gradnorm(numbers, norms, losses, first, 1.5), 1e-6
    expected = [(loss(numbers + step * e) - loss(numbers - step * e)) / 2 / step for e in np.eye(5)]
    weights = 5 * np.exp(numbers) / np.exp(numbers).sum()
    arrays = (tf.constant(x, tf.float32) for x in (weights, norms, losses, first))
    np.testing.assert_allclose(slopes_of(*arrays, 1.5), expected, rtol=1e-4, atol=1e-5)


def test_gradnorm_makes_the_gradients_of_unlike_tasks_alike() -> None:
    """Two losses of one vector, `s |x - target|^2` with the scales s of 1 and 100."""
    weights = GradNormWeights(TASKS, (), alpha=1.5)
    scales, targets = tf.constant([[1.0], [100.0]]), tf.constant([[1.0, 0.0], [0.0, 1.0]])
    x = tf.Variable([0.3, 0.4])

    @tf.function
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        losses = tf.reduce_sum(scales * (x - targets) ** 2, axis=1)
        gradients, of_tasks = 2 * scales * (x - targets), weights.values()
        x.assign_sub(0.003 * tf.linalg.matvec(gradients, of_tasks, transpose_a=True))
        weights.update(losses, gradients)
        return of_tasks, tf.norm(gradients, axis=1)

    for _ in range(500):
        of_tasks, norms = step()
        np.testing.assert_allclose(tf.reduce_sum(of_tasks), 2, rtol=1e-5)
    assert norms[1] > 50 * norms[0]
    np.testing.assert_allclose(of_tasks[0] * norms[0], of_tasks[1] * norms[1], rtol=0.1)


def test_uncertainty_learns_the_inverse_of_a_loss_of_constant_size() -> None:
    """Its stationary point is `exp(-s) = 1 / (2 L)`, and a task without labels stays."""
    weights = UncertaintyWeights((*TASKS, Task("rare")))
    np.testing.assert_array_equal(weights.values(), 1)
    losses = tf.constant([0.2, 2.0, 0.0])
    step = tf.function(lambda: weights.update(losses, None))
    for _ in range(700):
        step()
    np.testing.assert_allclose(weights.values(), [2.5, 0.25, 1.0], rtol=0.01)
    expected = np.log([0.4, 4.0]).sum() / 2
    np.testing.assert_allclose(weights.penalty(), expected, rtol=0.02)


@pytest.mark.parametrize("kind", ["uncertainty", "gradnorm"])
def test_a_task_without_labels_keeps_its_number(kind: str) -> None:
    """Also after steps with labels, whose momentum would move it."""
    weights = UncertaintyWeights(TASKS) if kind == "uncertainty" else GradNormWeights(TASKS, [], 1)
    gradients = tf.constant([[3.0, 4.0], [0.1, 0.2]])
    weights.update(tf.constant([0.2, 2.0]), gradients)
    before = weights.numbers.numpy()
    for _ in range(5):
        weights.update(tf.constant([0.2, 0.0]), gradients * [[1.0], [0.0]])
    assert weights.numbers.numpy()[1] == before[1] != 0
    if kind == "uncertainty":
        assert weights.numbers.numpy()[0] != before[0]


class Shared(keras.layers.Layer):
    """Two logits of one shared product."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.own = self.add_weight(shape=(U, 2), name="own")
        self.kernel = self.add_weight(shape=(D, U), name="kernel")
        for weight in (self.own, self.kernel):
            weight.assign(rng.normal(size=weight.shape))
        self.built = True

    def call(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.add_loss(keras.ops.sum(self.kernel**2))
        click, buy = tf.unstack(fields["x"] @ self.kernel @ self.own, axis=-1)
        return {"click": click, "buy": buy}


def result(weights: Any, rows: int | None) -> tuple[TowerResult, Shared]:
    tower = Shared()
    compute = TowerGradient(tower, TASKS, lambda loss: loss, rows=rows, shared=[tower.kernel])
    fields = {"x": tf.constant(X), "candidate_mask": tf.ones((B, T), tf.bool)}
    labels = {task: tf.constant(label) for task, label in LABELS.items()}
    return tf.function(lambda: compute(fields, labels, TOTALS, float(B * T), weights, 0.1))(), tower


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [None, 2 * T], ids=str)
def test_losses_and_gradients_by_task_are_those_of_the_whole_batch(rows: int | None) -> None:
    numbers = tf.constant([0.7, -1.1])  # as learned weights of uncertainty
    found, tower = result(tf.exp(-numbers), rows)
    kernel, own = (np.asarray(w, "float64") for w in (tower.kernel, tower.own))
    losses, gradients = [], []
    for task, label in enumerate(LABELS.values()):
        known = ~np.isnan(label)
        p = 1 / (1 + np.exp(-(X @ kernel @ own)[..., task]))
        y = np.where(known, label, 0)
        each = np.where(known, -y * np.log(p) - (1 - y) * np.log(1 - p), 0)
        losses.append(each.sum() / known.sum())
        slopes = np.where(known, p - y, 0) / known.sum()
        gradients.append(np.einsum("bt,btd,u->du", slopes, X, own[:, task]).ravel())
    np.testing.assert_allclose(found.of_tasks, losses, rtol=1e-5)
    np.testing.assert_allclose(found.of_shared, gradients, rtol=1e-4, atol=1e-6)
    penalty = 0.1 * (kernel**2).sum()
    total = np.exp(-0.7) * losses[0] + np.exp(1.1) * losses[1] + penalty
    np.testing.assert_allclose(found.loss, total, rtol=1e-5)


def test_fixed_weights_are_those_of_the_tasks() -> None:
    weights = TaskWeights((Task("click", weight=0.5), Task("buy", weight=3.0)))
    assert weights.by_task() == {"click": 0.5, "buy": 3.0}
    assert (weights.learned, weights.variables, float(weights.penalty())) == (False, [], 0.0)


def test_gradnorm_looks_at_the_last_layer_that_tasks_share() -> None:
    schema = Schema((Categorical("item", size=7),), TASKS)
    options = TrainingOptions(task_weights="gradnorm")
    model = mlp(schema, width=3, units=(4,), tower_units=(2,))
    found = make_task_weights(options, model).shared
    assert {variable.path for variable in found} == {
        variable.path for variable in model.tower.interaction.trainable_variables
    }
    with pytest.raises(PipelineError, match="'logistic_regression' has none with weights"):
        make_task_weights(options, logistic_regression(schema))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_gradnorm_looks_at_weights_of_all_tasks_only(name: str) -> None:
    """Of each matrix; a model of private ones is refused."""
    model = make(name)
    embedded = model.embedding(inputs())
    with tf.GradientTape(persistent=True) as tape:
        found = {task: tf.reduce_sum(x**2) for task, x in model.tower(embedded).items()}
    shared = model.tower.last_shared
    assert (not shared) == (name in ("aitm", "esmm", "fm", "logistic_regression"))
    for loss in found.values():
        gradients = tape.gradient(loss, [variable.value for variable in shared])
        assert all(gradient is not None for gradient in gradients)


def test_a_model_without_shared_weights_is_refused_early(tmp_path: Path) -> None:
    options = {"model": {"name": "logistic_regression"}, "training__task_weights": "gradnorm"}
    with pytest.raises(PipelineError, match="GradNorm compares the gradients of the last layer"):
        check_model(load(tmp_path, **options))


def test_the_weights_of_each_epoch_are_shown(trainer: Trainer) -> None:
    trainer(training__task_weights={"name": "gradnorm", "alpha": 0.5}, training__epochs=1)
    (epoch,) = trainer.history
    weights = [epoch["weight_click"], epoch["weight_conversion"]]
    assert sum(weights) == pytest.approx(2, rel=1e-5)
    assert abs(weights[0] - 1) > 1e-3
    lines = trainer.output.getvalue().splitlines()
    assert lines[1].endswith(f"  weight {weights[0]:.3f}")
