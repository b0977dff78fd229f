"""STEM's experts equal the equations, also where gradients stop."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.multitask import TaskEmbeddingExperts
from tests.support import reference
from tests.support.arrays import assert_close, numpy, weights_of
from tests.support.gradients import gradient, numeric
from tests.support.layer_case import randomise

M, D, TASKS, OWN, SHARED = 3, 4, 2, 2, 3
X = np.random.default_rng(0).normal(size=(M, D * (TASKS + 1))).astype("float32")


@pytest.fixture(scope="module")
def layer() -> TaskEmbeddingExperts:
    made = TaskEmbeddingExperts(TASKS, OWN, SHARED, expert_units=(6, 5), gate_units=(4,))
    made(X)
    randomise(made)
    rng = np.random.default_rng(2)
    for dense in made.logits:
        dense.kernel.assign(rng.normal(size=dense.kernel.shape))
    return made


def outputs(
    layer: TaskEmbeddingExperts, inputs: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and gates; a task's experts see the inputs, those of other tasks the others."""
    found, gates = [], []
    for task in range(TASKS):
        experts = []
        for part in (*range(1, TASKS + 1), 0):  # of the tasks, then the shared ones
            x = (inputs if part in (0, task + 1) else others)[:, part :: TASKS + 1]
            hidden = np.repeat(x[None], layer.experts[part].num_experts, axis=0)
            weights = [w.astype("float64") for w in weights_of(layer.experts[part])]
            for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
                hidden = reference.relu(hidden @ kernel + bias)
            experts += list(hidden)
        kernel, bias = (w.astype("float64") for w in weights_of(layer.gates[task]))
        x = inputs[:, task + 1 :: TASKS + 1] + inputs[:, 0 :: TASKS + 1]
        last, offset = (w.astype("float64") for w in weights_of(layer.logits[task]))
        logits = reference.relu(x @ kernel + bias) @ last + offset
        shares = np.stack([reference.softmax(row) for row in logits])
        gates.append(shares)
        found.append(np.einsum("me,emu->mu", shares, np.stack(experts)))
    return np.stack(found, axis=1), np.stack(gates, axis=1)


def test_layer_equals_the_equations(layer: TaskEmbeddingExperts) -> None:
    x = X.astype("float64")
    expected, gates = outputs(layer, x, x)
    found, shares = layer(X, return_gates=True)
    assert_close(found, expected)
    assert_close(shares, gates)
    assert shares.shape == (M, TASKS, TASKS * OWN + SHARED)


@pytest.mark.parametrize("task", range(TASKS))
def test_a_task_teaches_its_own_and_the_shared_part(layer: TaskEmbeddingExperts, task: int) -> None:
    others = X.astype("float64")
    expected = numeric(lambda x: outputs(layer, x, others)[0][:, task], others)
    found = gradient(lambda x: layer(x, training=True)[:, task], X)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    by_part = np.abs(found.reshape(M, D, TASKS + 1)).max(axis=(0, 1))
    assert by_part[2 - task] == 0
    assert by_part[[0, task + 1]].min() > 0.01


def test_embeddings_of_other_tasks_change_the_output(layer: TaskEmbeddingExperts) -> None:
    changed = X.copy()
    changed[:, 2 :: TASKS + 1] += 1.0  # of the second task
    difference = np.abs(numpy(layer(changed)) - numpy(layer(X)))
    assert difference.max(axis=(0, 2)).min() > 0.01


def test_inputs_that_are_no_multiple_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`inputs` must have a multiple of 3 numbers.*\(3, 11\)"):
        TaskEmbeddingExperts(TASKS, expert_units=(4,))(X[:, :11])
