"""Dice has the paper's formula, and padding never enters its statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.blocks import Dice
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.gradients import derivative, gradient

SHAPE = (3, 5, 7)
X = np.random.default_rng(0).normal(1.0, 2.0, SHAPE).astype("float32")
REAL = np.random.default_rng(1).random(SHAPE[:-1]) < 0.6
ALPHA = np.linspace(-0.5, 1.0, SHAPE[-1]).astype("float32")


def dice(**kwargs: Any) -> Dice:
    layer = Dice(**kwargs)
    layer.build(SHAPE)
    layer.alpha.assign(ALPHA)
    return layer


def moving(layer: Dice) -> tuple[np.ndarray, np.ndarray]:
    return tuple(
        keras.ops.convert_to_numpy(weight) for weight in (layer.moving_mean, layer.moving_variance)
    )


@pytest.mark.parametrize("where", [None, REAL, REAL[:, :1]], ids=["all", "some", "broadcast"])
def test_training_uses_the_statistics_of_the_real_rows(where: np.ndarray | None) -> None:
    real = None if where is None else np.broadcast_to(where, SHAPE[:-1])
    mean, variance = reference.statistics(X.astype("float64"), real)
    layer = dice()
    output = layer(X, where=where, training=True)
    assert_close(output, reference.dice(X, ALPHA, mean, variance))
    moving_mean, moving_variance = moving(layer)
    np.testing.assert_allclose(moving_mean, 0.01 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moving_variance, 0.99 + 0.01 * variance, rtol=1e-5)


def test_inference_uses_the_moving_averages_and_leaves_them() -> None:
    layer = dice()
    mean, variance = np.linspace(-1, 1, 7), np.linspace(0.5, 3, 7)
    layer.moving_mean.assign(mean)
    layer.moving_variance.assign(variance)
    output = layer(X, where=REAL)
    assert_close(output, reference.dice(X, ALPHA, mean, variance))
    np.testing.assert_allclose(moving(layer)[0], mean, rtol=1e-6)
    np.testing.assert_allclose(moving(layer)[1], variance, rtol=1e-6)


def test_a_batch_of_padding_leaves_the_moving_averages() -> None:
    layer = dice()
    output = layer(X, where=np.zeros_like(REAL), training=True)
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(moving(layer)[0], 0)
    np.testing.assert_array_equal(moving(layer)[1], 1)


def test_a_frozen_layer_keeps_its_averages_and_uses_them() -> None:
    layer = dice()
    layer.trainable = False
    np.testing.assert_array_equal(layer(X, training=True), layer(X, training=False))
    np.testing.assert_array_equal(moving(layer)[0], 0)


def test_alpha_starts_at_zero_and_one_is_the_identity() -> None:
    layer = Dice()
    layer.build(SHAPE)
    np.testing.assert_array_equal(layer.alpha, 0)
    layer.alpha.assign(np.ones(7))
    np.testing.assert_allclose(layer(X, training=True), X, rtol=1e-6)


def test_statistics_of_half_precision_are_taken_in_float32() -> None:
    layer = Dice(dtype="mixed_bfloat16", momentum=0.0)
    x = np.random.default_rng(2).normal(100, 1, (512, 1)).astype("float32")
    layer(x, training=True)
    rounded = keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.cast(x, "bfloat16"), "float32"))
    np.testing.assert_allclose(moving(layer)[0], rounded.mean(), rtol=1e-5)
    np.testing.assert_allclose(moving(layer)[1], rounded.var(), rtol=1e-3)


@pytest.mark.parametrize("floatx", ["float16", "float64"])
def test_statistics_are_taken_in_float32_whatever_the_default_is(floatx: str) -> None:
    layer, default = dice(momentum=0.0, dtype="float32"), keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        layer(keras.ops.cast(X, "float32"), training=True)
    finally:
        keras.config.set_floatx(default)
    assert_close(moving(layer)[0], X.mean((0, 1)))
    np.testing.assert_allclose(moving(layer)[1], X.var((0, 1)), rtol=1e-4)


def by_difference(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    step, result = 1e-4, np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        away = np.zeros(x.shape)
        away[index] = step
        result[index] = (function(x + away) - function(x - away)) / (2 * step)
    return result


@pytest.mark.parametrize("where", [None, REAL[:1, :3]], ids=["all", "some"])
def test_first_and_second_derivatives_are_those_of_differences(where: np.ndarray | None) -> None:
    """Through the statistics of the batch as well."""
    x, layer = X[:1, :3], dice()
    weights, direction = np.random.default_rng(3).normal(size=(2, *x.shape))

    def expected(x: np.ndarray) -> float:
        mean, variance = reference.statistics(x, where)
        return float((reference.dice(x, ALPHA, mean, variance) * weights).sum())

    def ours(x: Any) -> Any:
        with keras.StatelessScope():
            return layer(x, where=where, training=True) * keras.ops.cast(weights, "float32")

    def slope(x: np.ndarray) -> float:
        return float((by_difference(expected, x) * direction).sum())

    first = gradient(ours, x)
    np.testing.assert_allclose(first, by_difference(expected, x.astype("float64")), rtol=1e-3)
    second = gradient(lambda x: derivative(ours)(x) * keras.ops.cast(direction, "float32"), x)
    np.testing.assert_allclose(
        second, by_difference(slope, x.astype("float64")), rtol=1e-3, atol=1e-3
    )


def test_momentum_is_checked() -> None:
    with pytest.raises(ValueError, match=r"`momentum` must be a finite number .* below 1"):
        Dice(momentum=1.0)
