"""PLE equals the paper's equations; one layer is CGC, and its shares belong to the task."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.multitask import Experts, InputGate, ProgressiveExperts
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

B, T, D, TASKS, OWN, SHARED = 2, 3, 5, 2, 3, 2
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


def built(num_layers: int) -> ProgressiveExperts:
    layer = ProgressiveExperts(TASKS, num_layers, OWN, SHARED, (6, 4))
    layer(X)
    randomise(layer)
    return layer


def outputs(experts: Experts, x: np.ndarray) -> np.ndarray:
    """The outputs of the experts for one row, (E, U)."""
    hidden = np.repeat(x[None, None], experts.num_experts, axis=0)
    for kernel, bias in zip(experts.kernels, experts.biases, strict=True):
        hidden = reference.relu(hidden @ np.asarray(kernel, "float64") + np.asarray(bias))
    return hidden[:, 0]


def share(gate: InputGate, x: np.ndarray) -> np.ndarray:
    return reference.softmax(x @ np.asarray(gate.kernel, "float64"))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_layer_equals_the_paper(num_layers: int) -> None:
    layer = built(num_layers)
    found, gates = layer(X, return_gates=True)
    for index in np.ndindex(B, T):
        states = [X[index].astype("float64")] * (TASKS + 1)
        for number, experts in enumerate(layer.experts):
            made = [outputs(e, x) for e, x in zip(experts, states, strict=True)]
            of_tasks = [np.concatenate([own, made[-1]]) for own in made[:-1]]
            shares = [share(layer.gates[number][k], states[k]) for k in range(TASKS)]
            mixed = [own @ every for own, every in zip(shares, of_tasks, strict=True)]
            if number < num_layers - 1:
                mixed.append(share(layer.gates[number][-1], states[-1]) @ np.concatenate(made))
            states = mixed
        assert_close(found[index], np.stack(states))
        for task, own in enumerate(shares):
            row = np.zeros(TASKS * OWN + SHARED)
            row[task * OWN : (task + 1) * OWN], row[TASKS * OWN :] = own[:OWN], own[OWN:]
            np.testing.assert_allclose(gates[index][task], row, rtol=1e-4, atol=1e-6)
    assert len(layer.gates[-1]) == TASKS


def test_other_tasks_experts_get_no_gradient() -> None:
    """In one layer a task teaches its own and the shared experts only."""
    layer = built(1)
    output = np.asarray(layer(X))
    layer.experts[0][1].kernels[0].assign(layer.experts[0][1].kernels[0] + 1.0)
    changed = np.asarray(layer(X))
    np.testing.assert_array_equal(output[..., 0, :], changed[..., 0, :])
    assert np.abs(output[..., 1, :] - changed[..., 1, :]).max() > 1e-2
    layer.experts[0][2].kernels[0].assign(layer.experts[0][2].kernels[0] + 1.0)
    assert np.abs(changed - np.asarray(layer(X))).max(axis=(0, 1, 3)).min() > 1e-2
