"""PPNet's towers equal the paper's equations, also where gradients stop."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.blocks import GateUnit
from recsys_attn.multitask import GatedTowers
from tests.support import reference
from tests.support.arrays import assert_close, weights_of
from tests.support.gradients import gradient, numeric
from tests.support.layer_case import randomise
from tests.support.references.blocks import sigmoid

M, D, C, TASKS = 3, 5, 2, 2
X = np.random.default_rng(0).normal(size=(M, D + C)).astype("float32")


def factors(unit: GateUnit, condition: np.ndarray) -> np.ndarray:
    w_1, b_1, w_2, b_2 = (w.astype("float64") for w in weights_of(unit))
    return 2 * sigmoid(reference.relu(condition @ w_1 + b_1) @ w_2 + b_2)


def towers(layer: GatedTowers, inputs: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The outputs (M, TASKS, U); the gates see other inputs, which are constants."""
    condition = np.concatenate([inputs[:, D:], seen[:, :D]], axis=-1)
    outputs = []
    for layers, gates in zip(layer.layers, layer.gates, strict=True):
        h = inputs[:, :D] * factors(gates[0], condition)
        for each, gate in zip(layers, gates[1:], strict=True):
            kernel, bias = (w.astype("float64") for w in weights_of(each))
            h = reference.relu(h @ kernel + bias) * factors(gate, condition)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.fixture(scope="module")
def layer() -> GatedTowers:
    made = GatedTowers(TASKS, (6, 4), condition_size=C, gate_units=3)
    made(X)
    randomise(made)
    rng = np.random.default_rng(2)
    for unit in (each for gates in made.gates for each in gates):
        kernel = unit.hidden.kernel
        kernel.assign(rng.normal(size=kernel.shape))
    return made


def test_layer_equals_the_paper(layer: GatedTowers) -> None:
    x = X.astype("float64")
    assert_close(layer(X), towers(layer, x, x))
    assert len(layer.gates) == TASKS
    assert {len(gates) for gates in layer.gates} == {3}  # in front of each layer and of the logit


def test_gates_have_no_gradient_to_what_they_scale(layer: GatedTowers) -> None:
    seen = X.astype("float64")
    expected = numeric(lambda x: towers(layer, x, seen), seen)
    found = gradient(lambda x: layer(x, training=True), X)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    whole = numeric(lambda x: towers(layer, x, x), seen)
    np.testing.assert_allclose(gradient(layer, X), whole, rtol=1e-3, atol=1e-4)  # in scoring
    assert np.abs(whole - expected)[:, :D].max() > 0.01  # it would be another one
    assert np.abs(found[:, D:]).min() > 0  # the condition has one


def test_a_gate_of_zero_weights_is_the_identity() -> None:
    unit = GateUnit(units=3)
    unit(X[:, :D], X[:, D:])
    unit.set_weights([np.zeros_like(w) for w in weights_of(unit)])
    np.testing.assert_array_equal(unit(X[:, :D], X[:, D:]), X[:, :D])


def test_inputs_without_a_vector_are_refused() -> None:
    with pytest.raises(ValueError, match="more numbers than the condition"):
        GatedTowers(TASKS, (4,), condition_size=D + C)(X)
    with pytest.raises(ValueError, match="`units` must name at least one layer of a tower"):
        GatedTowers(TASKS, (), condition_size=C)
