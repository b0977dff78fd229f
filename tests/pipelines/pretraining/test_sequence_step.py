"""A step is that of the whole global batch, whatever the parts and the devices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.pretraining import sequence_step
from pipelines.pretraining.sequence_options import SequenceTraining
from pipelines.pretraining.sequence_step import SequenceStep, trained_variables
from pipelines.training.optimizer import make_optimizer
from recsys_attn.models import SequenceModel
from recsys_attn.objectives import OBJECTIVES, Objective, chunked_scores
from tests.support.sequence_steps import (
    BATCHES,
    LENGTH,
    SIZE,
    SIZES,
    STEPS,
    blocks,
    in_a_process,
    layout,
    parts,
)


def stepped(rows: int, seed: int) -> tuple[Any, SequenceModel, list[Objective]]:
    """The result of one step with the learning rate 1."""
    model, objectives = parts()
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(trained_variables(model, objectives))
    step = SequenceStep(model, objectives, optimizer, layout(), np.ones(SIZE))
    return step([blocks(rows, seed)]), model, objectives


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories that are as short as here are in one part otherwise."""
    monkeypatch.setattr(sequence_step, "LENGTHS", 1)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("rows", [13, pytest.param(1, marks=pytest.mark.thorough)])
def test_step_goes_down_the_sum_of_the_weighted_means(rows: int) -> None:
    result, model, objectives = stepped(rows, seed=2)
    new, of = parts()
    inputs = layout().inputs(blocks(rows, seed=2))
    ids = {name: tf.constant(inputs[name]) for name in ("item", "genre")}
    variables = trained_variables(new, of)
    with tf.GradientTape() as tape:
        first, second = (objective(new, ids) for objective in of)
        loss = first.total / first.count + 0.3 * second.total / second.count
    assert result.loss == pytest.approx(float(loss), rel=1e-5)
    assert result.rows == (inputs["item"][:, 0] != 0).sum() > 0
    gradients = tape.gradient(loss, variables)
    pairs = zip(variables, gradients, trained_variables(model, objectives), strict=True)
    for before, gradient, after in pairs:
        expected = before.numpy() - tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(after.numpy(), expected, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("count", [1, 5])
def test_number_of_parts_changes_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, model, _ = stepped(4, seed=3)
    monkeypatch.setattr(sequence_step, "PARTS", count)
    found, other, _ = stepped(4, seed=3)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    assert found.rows == expected.rows
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("lengths", "count"), [(LENGTH, 1), (3, 3)])
def test_parts_are_as_many_as_lengths_of_histories(
    lengths: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More would have the same padding, and each is traced."""
    monkeypatch.setattr(sequence_step, "LENGTHS", lengths)
    model, (objective, _) = parts()
    seen: list[Any] = []
    monkeypatch.setattr(SequenceModel, "encode", _recorded(SequenceModel.encode, seen))
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(trained_variables(model, [objective]))
    SequenceStep(model, [objective], optimizer, layout(), np.ones(SIZE))([blocks(13, seed=2)])
    assert len(seen) == count


def _recorded(method: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return method(*arguments, **options)

    return call


def test_batch_without_events_changes_nothing() -> None:
    """A worker without data left gets one."""
    model, objectives = parts()
    before = model.get_weights()
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(trained_variables(model, objectives))
    step = SequenceStep(model, objectives, optimizer, layout(), np.ones(SIZE))
    nothing = blocks(1, 2)
    nothing["context_ids"][:] = 0
    result = step([nothing])
    assert (result.loss, result.rows) == (0, 0)
    for one, two in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("per_draw", [0, pytest.param(32, marks=pytest.mark.thorough)])
def test_row_wise_optimizer_changes_only_items_that_came_or_were_drawn(
    per_draw: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all items that occur are multiplied as a whole."""
    monkeypatch.setattr(chunked_scores, "MOST_ROWS_PER_DRAW", per_draw)
    model, _ = parts()
    objective = OBJECTIVES["next_item"](loss="bpr")  # one draw for each of five targets
    objective.prepare(model, SIZES)
    optimizer = make_optimizer(
        SequenceTraining(optimizer="lazy_adam"), trained_variables(model, [objective])
    )
    step = SequenceStep(model, [objective], optimizer, layout(), np.ones(SIZE))
    table = next(v for v in model.trainable_variables if v.shape[0] == SIZE)
    before, batch = table.numpy(), blocks(1, seed=2)
    assert step([batch]).loss > 0
    changed = np.any(table.numpy() != before, axis=1)
    came = set(batch["context_ids"][0, :LENGTH].tolist()) - {0}
    assert changed[sorted(came)].all()
    assert changed.sum() <= len(came) + len(came) - 1


@pytest.mark.thorough
def test_two_devices_step_like_one_with_both_batches(tmp_path: Path) -> None:
    """Of different sizes, so that the mean over all is not that of two means."""
    found = in_a_process(tmp_path / "found.npz")
    one, two = (
        {name.partition("/")[2]: x for name, x in found.items() if name.startswith(device)}
        for device in ("one", "two")
    )
    assert one["results"].shape == (STEPS, 3)
    assert 0 < one["results"][0, 1] <= sum(BATCHES)
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_allclose(two[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
