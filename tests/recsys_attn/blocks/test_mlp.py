"""The perceptron equals matrix products, and its activations are made in one place."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.blocks import Dice, FactorizedDense, Mlp, activations
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

X = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
REAL = np.array([[True, False, True], [False, True, False]])


def test_mlp_equals_matrix_products() -> None:
    layer = Mlp((7, 4))
    output = layer(X)
    expected = X.astype("float64")
    for kernel, bias in zip(layer.get_weights()[::2], layer.get_weights()[1::2], strict=True):
        expected = reference.relu(expected @ kernel + bias)
    assert_close(output, expected)


def test_half_of_a_factorised_layer_are_products() -> None:
    layer = Mlp((6, 4), activation="tanh", factorized=True)
    layer(X)
    randomise(layer)
    x = X.astype("float64")
    for kernel, bias in zip(layer.get_weights()[::2], layer.get_weights()[1::2], strict=True):
        hidden, factors = np.split(x @ kernel + bias, 2, axis=-1)
        x = np.tanh(np.concatenate([hidden, hidden * factors], axis=-1))
    assert_close(layer(X), x)
    with pytest.raises(ValueError, match="`units` must be even"):
        FactorizedDense(5)


def test_no_units_hand_the_inputs_on() -> None:
    np.testing.assert_array_equal(Mlp(())(X), X)


def test_every_dice_has_statistics_of_its_own() -> None:
    layer = Mlp((7, 4), activation="dice")
    layer(X, where=REAL, training=True)
    first, second = layer.activations
    assert (first.alpha.shape, second.alpha.shape) == ((7,), (4,))
    kernel = keras.ops.convert_to_numpy(layer.dense[0].kernel)
    mean, _ = reference.statistics(X.astype("float64") @ kernel, REAL)
    np.testing.assert_allclose(first.moving_mean, 0.01 * mean, rtol=1e-4, atol=1e-7)


def test_dropout_is_active_in_training_only() -> None:
    layer = Mlp((64,), activation="sigmoid", dropout=0.5)
    assert np.min(layer(X)) > 0
    assert np.mean(np.asarray(layer(X, training=True)) == 0) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("activation", "saved"),
    [
        ("dice", "dice"),
        ("relu", "relu"),
        (keras.activations.gelu, "gelu"),
        (None, "linear"),
    ],
)
def test_activations_are_saved_by_name(activation: object, saved: str) -> None:
    assert activations.serialize(activation) == saved
    made = activations.get(saved)
    assert isinstance(made, Dice if saved == "dice" else keras.layers.Activation)


def test_an_unknown_activation_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"Expected `activation`.*Did you mean 'dice'"):
        Mlp((4,), activation="dise")


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True], ids=str)
def test_units_are_checked(wrong: object) -> None:
    with pytest.raises(ValueError, match=rf"`units\[1\]` must be .* Received: units\[1\]={wrong}"):
        Mlp((4, wrong))
