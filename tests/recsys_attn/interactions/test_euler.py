"""EulerNet's layer equals powers and products of complex numbers, and is safe at zero."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.interactions import EulerInteraction
from recsys_attn.interactions.euler import polar
from tests.support.arrays import assert_close
from tests.support.gradients import gradient
from tests.support.layer_case import randomise
from tests.support.reference import relu
from tests.support.refusals import refusals

F, E = 5, 3
RNG = np.random.default_rng(0)
FIELDS = RNG.normal(size=(2, 7, F, E)).astype("float32")


def expected(layer: EulerInteraction, fields: np.ndarray) -> np.ndarray:
    """One row (F, E), one channel of one vector of orders after the other."""
    z = np.asarray(layer.modulus, "float64") * np.exp(1j * fields.astype("float64"))
    for inner in layer.layers:
        orders = np.asarray(inner.orders, "float64")
        kernel, bias = (np.asarray(weight, "float64") for weight in inner.implicit.weights)
        moduli, phases = (
            np.asarray(weight, "float64") for weight in (inner.log_modulus_bias, inner.phase_bias)
        )
        product = np.exp(moduli + 1j * phases)
        for n, e, j in np.ndindex(inner.count, E, len(z)):
            product[n, e] *= np.exp(orders[j, n] * (np.log(abs(z[j, e])) + 1j * np.angle(z[j, e])))
        parts = []
        for norm, own, explicit in zip(
            inner.norms, (z.real, z.imag), (product.real, product.imag), strict=True
        ):
            x = explicit + relu(own.ravel() @ kernel + bias).reshape(inner.count, E)
            if layer.norm == "layer":
                gamma, beta = (np.asarray(weight, "float64") for weight in norm.weights)
                centred = x - x.mean(axis=-1, keepdims=True)
                variance = (centred**2).mean(axis=-1, keepdims=True)
                x = centred / np.sqrt(variance + 1e-6) * gamma + beta
            parts.append(x)
        z = parts[0] + 1j * parts[1]
    return z.real + z.imag


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_layer_equals_the_paper(norm: str) -> None:
    layer = EulerInteraction((4, 2), norm)
    layer(FIELDS)
    randomise(layer)
    found = keras.ops.convert_to_numpy(layer(FIELDS))
    for row in np.ndindex(FIELDS.shape[:2]):
        assert_close(found[row], expected(layer, FIELDS[row]))


def test_orders_of_one_multiply_the_fields() -> None:
    """The phases add up, so that cos and sin are those of the sum of all fields."""
    layer = EulerInteraction((1,), "none")
    layer(FIELDS)
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape))
    layer.layers[0].orders.assign(np.ones((F, 1)))
    layer.modulus.assign(np.full((F, 1), 1.5))
    total = FIELDS.astype("float64").sum(axis=-2, keepdims=True)
    assert_close(layer(FIELDS), 1.5**F * (np.cos(total) + np.sin(total)))


def test_orders_start_as_one_field_each() -> None:
    layer = EulerInteraction((29, 29))
    layer(FIELDS)
    first, second = (keras.ops.convert_to_numpy(inner.orders) for inner in layer.layers)
    assert_close(first.sum(axis=0), np.ones(29))
    assert np.median(first.max(axis=0)) > 0.99
    assert len(set(first.argmax(axis=0))) > 1
    np.testing.assert_array_equal(second, np.eye(29))
    assert np.abs(layer.layers[0].phase_bias - layer.layers[0].log_modulus_bias).max() > 1e-3


@pytest.mark.parametrize("modulus", [0.0, 1e-6, 1.0])
def test_values_and_gradients_are_finite_at_zero(modulus: float) -> None:
    """A modulus of 0, where neither the logarithm nor the phase is there; and missing fields."""
    layer = EulerInteraction((4, 3))
    layer(FIELDS)
    randomise(layer)
    layer.modulus.assign(np.full((F, 1), modulus))
    fields = FIELDS * (RNG.random((2, 7, F, 1)) < 0.5)
    fields[0, 0] = 0
    assert np.isfinite(keras.ops.convert_to_numpy(layer(fields))).all()
    assert np.isfinite(gradient(layer, fields)).all()

    def of_modulus(value: object) -> object:
        return polar(value, 0 * value)[0] + polar(0 * value, value)[1]

    by_modulus = gradient(of_modulus, np.full(3, modulus, "float32"))
    assert np.isfinite(by_modulus).all()
    assert abs(by_modulus).max() < 1e4


def test_computes_in_float32_in_mixed_precision() -> None:
    """Rounding to bfloat16 can change the sign of a phase near pi."""
    layer = EulerInteraction((4, 2))
    layer(FIELDS)
    randomise(layer)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        mixed = EulerInteraction((4, 2))
        mixed(FIELDS)
    finally:
        keras.config.set_dtype_policy(before)
    mixed.set_weights(layer.get_weights())
    assert_close(mixed(FIELDS), layer(FIELDS))


def test_large_orders_stay_finite() -> None:
    layer = EulerInteraction((3,), dtype="float16")
    layer(FIELDS)
    layer.layers[0].orders.assign(np.full((F, 3), -500.0))
    layer.modulus.assign(np.full((F, 1), 1e-3))
    assert np.isfinite(keras.ops.convert_to_numpy(layer(FIELDS)).astype("float32")).all()


test_arguments_are_checked = refusals(
    (lambda: EulerInteraction(()), "at least one layer"),
    (lambda: EulerInteraction(norm="batch"), "`norm` must be a name.*Received: 'batch'"),
    (lambda: EulerInteraction()(keras.Input((None, 3))), r"must be known.*\(None, None, 3\)"),
)
