"""Two optimizers as one: what goes where, what both share, and what is refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import LazyAdam, LossScale, Split, WarmUp
from tests.support.optimizers import (
    batches,
    data,
    fit,
    gradient,
    model,
    numpy,
    table,
)
from tests.support.references import optimizers as reference

KERNEL = np.random.default_rng(6).normal(size=(7, 3)).astype("float32")


def kernel() -> keras.Variable:
    return keras.Variable(KERNEL, name="kernel")


def kernel_gradients() -> list[np.ndarray]:
    return list(np.random.default_rng(7).normal(size=(7, 7, 3)).astype("float32"))


def apply(optimizer: Split) -> tuple[np.ndarray, np.ndarray]:
    """A table and a kernel after some steps."""
    variables = [table(), kernel()]
    for (ids, values), dense in zip(batches(), kernel_gradients(), strict=True):
        optimizer.apply([gradient(ids, values), keras.ops.convert_to_tensor(dense)], variables)
    return numpy(variables[0]), numpy(variables[1])


def test_each_part_has_its_own_formula_rate_and_decay() -> None:
    rows, other = apply(Split(LazyAdam(0.1, weight_decay=0.3), keras.optimizers.SGD(0.02)))
    wanted = reference.train(
        reference.adam, numpy(table()), batches(), lambda step: 0.1, {"weight_decay": 0.3}
    )
    np.testing.assert_allclose(rows, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(other, KERNEL - 0.02 * sum(kernel_gradients()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "adagrad"])
def test_the_rest_adds_up_the_lookups_of_a_row(kind: str) -> None:
    """As positions have them; Keras' own would take each lookup for a row of its own."""
    ids, values = batches()[0]
    assert len(set(ids)) < len(ids)
    sums = np.zeros(numpy(table()).shape, "float32")
    np.add.at(sums, ids, values)
    found = []
    for given in (gradient(ids, values), keras.ops.convert_to_tensor(sums)):
        positions = keras.Variable(numpy(table()), name="positions")
        Split(LazyAdam(0.1), kind).apply([gradient(ids, values), given], [table(), positions])
        found.append(numpy(positions))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_gradients_of_both_are_clipped_together() -> None:
    rows, other = apply(
        Split(LazyAdam(0.1), keras.optimizers.SGD(0.02), global_clipnorm=0.9),
    )
    steps, wanted = [], KERNEL.astype("float64")
    for (ids, values), dense in zip(batches(), kernel_gradients(), strict=True):
        squares = [np.sum(total**2) for total in reference.summed(ids, values).values()]
        factor = min(1.0, 0.9 / np.sqrt(sum(squares) + np.sum(dense.astype("float64") ** 2)))
        steps.append((ids, values * factor))
        wanted = wanted - 0.02 * factor * dense
    expected = reference.train(reference.adam, numpy(table()), steps, lambda step: 0.1, {})
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-6)


def test_small_gradients_are_not_clipped() -> None:
    clipped = apply(Split(LazyAdam(0.1), keras.optimizers.SGD(0.02), global_clipnorm=1e6))
    for found, wanted in zip(
        clipped, apply(Split(LazyAdam(0.1), keras.optimizers.SGD(0.02))), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_a_norm_that_is_not_finite_is_not_hidden() -> None:
    variables = [table(), kernel()]
    ids, values = batches()[0]
    dense = keras.ops.convert_to_tensor(np.full((7, 3), np.inf, "float32"))
    Split(LazyAdam(0.1), "sgd", global_clipnorm=1.0).apply(
        [gradient(ids, values), dense], variables
    )
    assert np.all(np.isnan(numpy(variables[1])))
    assert np.any(np.isnan(numpy(variables[0])))


def test_the_rate_is_that_of_the_rest_and_changes_both() -> None:
    optimizer = Split(LazyAdam(0.3), keras.optimizers.SGD(0.02))
    assert float(optimizer.learning_rate) == pytest.approx(0.02)
    optimizer.learning_rate = 0.01
    assert float(optimizer.rest.learning_rate) == pytest.approx(0.01)
    assert float(optimizer.embeddings.learning_rate) == pytest.approx(0.15)


def test_callbacks_lower_both_rates() -> None:
    trained = model()
    trained.compile(Split(LazyAdam(0.3), keras.optimizers.SGD(0.02)), "mse")
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    trained.fit(*data(), epochs=2, callbacks=[halve], verbose=0)
    assert float(trained.optimizer.rest.learning_rate) == pytest.approx(0.005)
    assert float(trained.optimizer.embeddings.learning_rate) == pytest.approx(0.075)


def test_from_a_rate_of_zero_there_is_no_factor() -> None:
    optimizer = Split(LazyAdam(0.3), keras.optimizers.SGD(0.0))
    with pytest.raises(ValueError, match=r"learning rate of `rest` is 0.*0\.5"):
        optimizer.learning_rate = 0.5


def test_a_table_without_gradient_is_left_alone() -> None:
    variables = [table(), kernel()]
    optimizer = Split(LazyAdam(0.1, weight_decay=0.1), "sgd")
    with pytest.warns(UserWarning, match="Gradients do not exist.*table_5"):
        optimizer.apply([None, keras.ops.convert_to_tensor(KERNEL)], variables)
    np.testing.assert_array_equal(numpy(variables[0]), numpy(table()))
    np.testing.assert_allclose(numpy(variables[1]), 0.99 * KERNEL, rtol=1e-6)


@pytest.mark.thorough
def test_averages_of_the_rest_replace_it_in_the_end() -> None:
    """The moving average of Keras goes through to the part that has one."""
    weights = {}
    for average in (False, True):
        trained = model()
        rest = keras.optimizers.SGD(0.5, use_ema=average, ema_momentum=0.5)
        trained.compile(Split(LazyAdam(0.1), rest), "mse")
        weights[average] = fit(trained)
    # Two programs, compiled apart.
    np.testing.assert_allclose(weights[False][0], weights[True][0], rtol=1e-6, atol=1e-6)
    assert all(np.any(a != b) for a, b in zip(*(w[1:] for w in weights.values()), strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "make",
    [
        lambda: LazyAdam(0.1),
        lambda: LossScale(Split(LazyAdam(0.1), "adam", global_clipnorm=1.0)),
    ],
    ids=["LazyAdam", "LossScale of Split"],
)
def test_a_table_that_is_frozen_later_stays_and_all_else_goes_on(make: Any) -> None:
    trained, optimizer = model(), make()
    trained.compile(optimizer, "mse")
    before = [weight.copy() for weight in fit(trained)]
    trained.embedding.trainable = False
    trained.compile(optimizer, "mse")
    after = fit(trained)
    np.testing.assert_array_equal(after[0], before[0])
    assert all(np.any(a != b) for a, b in zip(after[1:], before[1:], strict=True))


def test_a_table_that_the_optimizer_does_not_know_is_refused() -> None:
    trained, optimizer = model(), LazyAdam(0.1)
    trained.embedding.trainable = False
    trained.compile(optimizer, "mse")
    fit(trained)
    trained.embedding.trainable = True
    trained.compile(optimizer, "mse")
    with pytest.raises(ValueError, match="new optimizer"):
        fit(trained)


def test_learns() -> None:
    trained = model()
    parts = LazyAdam(WarmUp(0.1, 3), weight_decay=0.01), keras.optimizers.AdamW(0.03)
    trained.compile(Split(*parts, global_clipnorm=1.0), "mse")
    losses = trained.fit(*data(), batch_size=4, epochs=23, verbose=0).history["loss"]
    assert losses[-1] < 0.1 * losses[0]
    assert int(trained.optimizer.iterations) == 23 * 5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Split("adam", "adam"), TypeError, "`embeddings` must be an optimizer of rows"),
        (lambda: Split(LazyAdam(), None), TypeError, "`rest` must be an optimizer.*rest=None"),
        (lambda: Split(LazyAdam(), Split(LazyAdam(), "adam")), TypeError, "holds no other"),
        (lambda: Split(LazyAdam(), LossScale(LazyAdam())), TypeError, "wrap the Split"),
        (
            lambda: Split(LazyAdam(), keras.optimizers.SGD(gradient_accumulation_steps=2)),
            ValueError,
            "`rest` must not have `gradient_accumulation_steps`.*=2",
        ),
        (
            lambda: Split(LazyAdam(), keras.optimizers.SGD(loss_scale_factor=4.0)),
            ValueError,
            "`rest` must not have `loss_scale_factor`.*=4.0",
        ),
        (
            lambda: Split(LazyAdam(), "sgd").build([kernel()]),
            ValueError,
            r"No variable is a table.*`tables`.*\['kernel'\]",
        ),
    ],
)
def test_wrong_parts_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
