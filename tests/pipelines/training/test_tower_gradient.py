"""The tower in micro-batches takes the step of the whole batch."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.experiment.training_options import TrainingOptions
from pipelines.feed import Layout
from pipelines.training import step as step_module
from pipelines.training.optimizer import make_optimizer
from pipelines.training.step import TrainStep
from pipelines.training.tower_gradient import TowerGradient, depends_on_batch
from recsys_attn import models
from recsys_attn.backend.sparse_gradients import compiled_sums
from recsys_attn.loss_options import LossName
from recsys_attn.models import aitm, mlp
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support import shop

B, T = 11, 3


def batch(features: Any, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    layout = Layout.of(features.schema)
    blocks = {}
    for name, width in layout.widths.items():
        shape = (B, width) if name.startswith("context") else (B, T, width)
        ids = rng.integers(0, 7, shape).astype("int32")
        blocks[name] = ids if name.endswith("ids") else rng.normal(size=shape).astype("float32")
    mask = np.arange(T) < rng.integers(1, T + 1, (B, 1))
    labels = rng.choice([0.0, 1.0, np.nan], blocks["labels"].shape).astype("float32")
    blocks["labels"] = np.where(mask[..., None], labels, np.nan)
    return {**blocks, "candidate_mask": mask}


@functools.cache
def trained(
    micro_batch_size: int | None, jit_compile: bool = False, losses: tuple[LossName, ...] = ()
) -> tuple[list[float], list[np.ndarray]]:
    """The losses of a few steps, and the weights after them; the tasks may have other losses."""
    keras.utils.set_random_seed(5)
    features = shop.fitted()
    if losses:
        tasks = zip(features.schema.tasks, losses, strict=True)
        features = features.with_tasks(tuple(replace(task, loss=loss) for task, loss in tasks))
    model = shop.model(features)
    # Steps in proportion to the gradient: Adam's make a full step of a gradient that is rounding.
    options = TrainingOptions(optimizer="sgd", learning_rate=0.3, clip_norm=1.0)
    optimizer = make_optimizer(options, model.trainable_variables)
    step = TrainStep(model, optimizer, Layout.of(features.schema), jit_compile, micro_batch_size)
    steps = [step([batch(features, seed)]).loss for seed in range(4)]
    return steps, model.get_weights()


@pytest.mark.xdist_group("tower")
@pytest.mark.parametrize(
    "micro_batch_size", [7, pytest.param(500, marks=pytest.mark.thorough)], ids=str
)
def test_micro_batches_take_the_step_of_the_batch(micro_batch_size: int) -> None:
    """Parts of unequal size, and one part larger than the batch."""
    (losses, weights), (expected, whole) = trained(micro_batch_size), trained(None)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for variable, wanted in zip(weights, whole, strict=True):
        np.testing.assert_allclose(variable, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.xdist_group("tower")
@pytest.mark.parametrize("losses", [("softmax", "jrc"), ("bpr", "list_mle")], ids=str)
def test_requests_are_compared_as_in_the_whole_batch(losses: tuple[LossName, ...]) -> None:
    (steps, weights), (expected, whole) = trained(7, losses=losses), trained(None, losses=losses)
    assert abs(expected[0] - trained(None)[0][0]) > 0.01
    np.testing.assert_allclose(steps, expected, rtol=1e-5)
    for variable, wanted in zip(weights, whole, strict=True):
        np.testing.assert_allclose(variable, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.xdist_group("tower")
@pytest.mark.parametrize("others", [(), ("bpr", "list_mle")], ids=str)
def test_compiled_step_is_the_same(others: tuple[LossName, ...]) -> None:
    (losses, weights), (expected, plain) = trained(7, True, others), trained(7, False, others)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for variable, wanted in zip(weights, plain, strict=True):
        np.testing.assert_allclose(variable, wanted, rtol=1e-3, atol=1e-4)


def test_sums_over_lookups_are_compiled_for_one_candidate_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of requests of many candidates have too many sizes for XLA."""
    compiled: list[bool] = []

    @contextmanager
    def spy(wanted: bool) -> Iterator[None]:
        compiled.append(wanted)
        with compiled_sums(wanted):
            yield

    monkeypatch.setattr(step_module, "compiled_sums", spy)
    features = shop.fitted()
    model = shop.model(features)
    optimizer = make_optimizer(TrainingOptions(), model.trainable_variables)
    step = TrainStep(model, optimizer, Layout.of(features.schema))
    many = batch(features, 0)
    one = {name: x if name.startswith("context") else x[:, :1] for name, x in many.items()}
    for arrays in (many, one):
        assert np.isfinite(step([arrays]).loss)
    assert compiled == [False, True]


class Dropping(keras.layers.Layer):
    """Half of a field's numbers to the logits, and their mean into a moving one."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5)
        self.mean = self.add_weight(shape=(), trainable=False, name="mean")
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
        self.built = True

    def call(self, fields: dict[str, Any], training: bool = False) -> dict[str, Any]:
        x = self.scale * fields["x"]
        self.mean.assign(keras.ops.mean(fields["x"]))
        return {"click": keras.ops.sum(self.dropout(x, training=training), axis=-1)}


class Penalised(keras.layers.Layer):
    """A weight as a logit, and twice its value as a penalty."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="ones", name="weight")
        self.built = True

    def call(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.add_loss(2 * self.weight)
        return {"click": fields["x"][..., 0] * 0 + self.weight}


@pytest.mark.parametrize("rows", [None, 2])
def test_penalties_alone_have_the_factor(rows: int | None) -> None:
    tower = TowerGradient(Penalised(), [Task("click")], lambda loss: loss, rows=rows)
    fields = {"x": tf.zeros((6, 1, 1)), "candidate_mask": tf.ones((6, 1), tf.bool)}
    arguments = fields, {"click": tf.zeros((6, 1))}, {"click": 6.0}, 6.0, tf.ones(1)
    step = tf.function(lambda penalty: tower(*arguments, penalty))
    slopes = [float(step(tf.constant(factor)).of_variables[0]) for factor in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(slopes, 1 / (1 + np.exp(-1)) + np.array([0, 1, 2]), rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [4, 6])
def test_step_has_the_penalty_of_the_order(rows: int) -> None:
    """The mean over rows is that of the batch, also where the last micro-batch is smaller."""
    tasks = (Task("click"), Task("buy"))
    model = aitm(Schema((Categorical("item", size=9),), tasks), tower_units=(5,), dropout=0.0)
    for weight in model.weights[1:]:
        weight.assign(np.random.default_rng(3).normal(size=weight.shape))
    mask = np.array([[1, 1], [1, 0], [1, 0], [1, 1]], bool)
    inputs = {"item": np.arange(8).reshape(4, 2), "candidate_mask": mask}
    count = float(mask.sum())
    logits = model(inputs, training=True)
    (expected,) = model.losses
    tower = TowerGradient(model.tower, tasks, lambda loss: loss, rows=rows)
    labels = dict.fromkeys(logits, tf.fill((4, 2), np.nan))  # so the penalty is all of the loss
    totals = {"click": 1, "buy": 1}
    step = tf.function(lambda: tower(model.embedding(inputs), labels, totals, count, tf.ones(2)))
    assert float(expected) > 0.01
    np.testing.assert_allclose(float(step().loss), float(expected), rtol=1e-5)


class Normalised(keras.layers.Layer):
    """Keeps its normalisation where no walk over public attributes finds it."""

    def __init__(self) -> None:
        super().__init__()
        self._norm = keras.layers.BatchNormalization()

    def build(self, shape: Any) -> None:
        self._norm.build(shape)


def test_own_layers_with_batch_statistics_are_found() -> None:
    layer = Normalised()
    layer.build((None, 4))
    assert depends_on_batch(layer)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("mlp", {"activation": "dice"}, True),
        ("dcn", {"norm": "batch"}, True),
        ("dien", {"activation": "relu"}, True),
        ("bst", {}, False),
        ("mmoe", {"experts": {"balance": 0.1}}, True),
        ("mmoe", {}, False),
        ("dcn", {"norm": "layer"}, False),
    ],
)
def test_towers_that_depend_on_the_batch_are_found(
    name: str, options: dict[str, Any], expected: bool
) -> None:
    seen = Sequence("seen", shares="item", max_length=4)
    schema = Schema((Categorical("item", size=9), seen), (Task("click"), Task("buy")))
    assert depends_on_batch(models.get(name)(schema, **options).tower) == expected


@pytest.mark.parametrize("candidates", [1, 5])
def test_batch_statistics_are_of_many_requests(candidates: int) -> None:
    """Also with several candidates: those of a request are alike. Both halves have 35 of 70."""
    schema = Schema((Categorical("item", size=9),), (Task("click"),))
    model = mlp(schema, units=(4,), activation="dice")
    rng = np.random.default_rng(3)
    for weight in model.weights[1:]:  # the first is the table
        weight.assign(rng.normal(size=weight.shape))
    ids = rng.integers(0, 9, (70, candidates))

    def after(requests: slice, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and the moving statistics of some requests, from the same start."""
        state = [v.numpy() for v in model.tower.non_trainable_variables]
        inputs = {"item": ids[requests], "candidate_mask": np.ones(ids[requests].shape, bool)}
        labels = {"click": tf.ones(ids[requests].shape)}
        gradient = TowerGradient(model.tower, schema.tasks, lambda loss: loss, rows=rows)
        fields, ones = model.embedding(inputs), tf.ones(1)
        step = tf.function(lambda: gradient(fields, labels, {"click": 1.0}, 1.0, ones).of_variables)
        gradients = np.concatenate([x.numpy().ravel() for x in step()])
        statistics = np.concatenate([v.numpy() for v in model.tower.non_trainable_variables])
        for variable, value in zip(model.tower.non_trainable_variables, state, strict=True):
            variable.assign(value)
        return gradients, statistics

    found, statistics = after(slice(70), 4)
    first, expected = after(slice(35), None)
    rest, _ = after(slice(35, 70), None)
    np.testing.assert_allclose(found, first + rest, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(statistics, expected, rtol=1e-5)


def test_micro_batches_drop_other_units() -> None:
    keras.utils.set_random_seed(3)
    layer = Dropping()
    tower = TowerGradient(layer, [Task("click")], lambda loss: loss, rows=2)
    x = tf.reshape(tf.repeat(tf.range(1.0, 7.0), 64), (6, 1, 64))
    fields = {"x": x, "candidate_mask": tf.ones((6, 1), tf.bool)}
    arguments = fields, {"click": tf.zeros((6, 1))}, {"click": 6.0}, 6.0, tf.ones(1)
    step = tf.function(lambda: tower(*arguments))
    seeds = next(v for v in layer.non_trainable_variables if v is not layer.mean)
    before = seeds.numpy()
    kept = step().of_leaves[0].numpy()[:, 0] != 0
    assert kept.any()
    assert (kept[0:2] != kept[2:4]).any()
    assert (kept[2:4] != kept[4:6]).any()
    np.testing.assert_array_equal(seeds.numpy() - before, [0, 1])  # as after one call
    np.testing.assert_allclose(layer.mean.numpy(), 1.5)
    again = step().of_leaves[0].numpy()[:, 0] != 0
    assert (kept != again).any()
    seeds.assign(before)
    np.testing.assert_array_equal(step().of_leaves[0].numpy()[:, 0] != 0, kept)
