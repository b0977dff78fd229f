"""The penalty of balance is the squared variation of importance, and revives dead experts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Linear
from recsys_attn.models.building_blocks import TaskHeads
from recsys_attn.multitask import Balance, MMoE, ProgressiveExperts
from tests.support.gradients import gradient

B, T, TASKS, E = 5, 3, 2, 7
RNG = np.random.default_rng(0)
GATES = RNG.dirichlet(np.ones(E), (B, T, TASKS)).astype("float32")
WHERE = RNG.random((B, T)) < 0.6


def variation(gates: np.ndarray, where: np.ndarray, counts: Any = 1) -> float:
    """Squared standard deviation over squared mean of what each expert gets."""
    importance = gates[where].astype("float64").sum(axis=(0, 1)) / np.asarray(counts)
    return float((importance.std() / importance.mean()) ** 2)


def penalty(layer: Balance, gates: Any, **kwargs: Any) -> float:
    np.testing.assert_array_equal(layer(gates, training=True, **kwargs), gates)
    (loss,) = layer.losses
    return float(loss)


def test_penalty_is_the_squared_coefficient_of_variation() -> None:
    every = np.ones((B, T), bool)
    assert penalty(Balance(0.3), GATES) == pytest.approx(0.3 * variation(GATES, every), rel=1e-4)
    found = penalty(Balance(0.3), GATES, where=WHERE)
    assert found == pytest.approx(0.3 * variation(GATES, WHERE), rel=1e-4)


def test_limits_of_the_penalty() -> None:
    one = np.zeros((B, T, TASKS, E), "float32")
    one[..., 2] = 1
    assert penalty(Balance(1.0), one) == pytest.approx(E - 1, rel=1e-5)
    assert penalty(Balance(1.0), np.full_like(one, 1 / E)) == pytest.approx(0, abs=1e-6)
    assert penalty(Balance(1.0), GATES, where=np.zeros((B, T), bool)) == 0
    layer = Balance(1.0)
    layer(GATES)
    assert layer.losses == []  # not in training


def test_an_expert_counts_by_the_tasks_that_may_use_it() -> None:
    """In PLE equal gates of all tasks cost nothing, though a shared expert is used by more."""
    x = RNG.normal(size=(B, 5)).astype("float32")
    ple = ProgressiveExperts(TASKS, 1, 2, 3, (4,))
    ple(x)
    for gate in ple.gates[0]:
        gate.kernel.assign(np.zeros(gate.kernel.shape))
    even = np.asarray(ple(x, return_gates=True)[1])
    assert sorted(set(even.ravel())) == pytest.approx([0, 1 / 5])
    counts = ple.task_counts
    assert penalty(Balance(1.0), even, task_counts=counts) == pytest.approx(0, abs=1e-6)
    assert penalty(Balance(1.0), even) > 0.1


def test_a_collapsed_gate_comes_to_use_all_experts() -> None:
    """Steps down the penalty alone, through the gate of MMoE."""
    mmoe = MMoE(TASKS, 3, (4,))
    x = np.abs(RNG.normal(size=(11, 5))).astype("float32")
    mmoe.build(x.shape)
    kernel = np.zeros((5, TASKS, 3), "float32")
    kernel[..., 0] = 1.0  # the first expert has nearly all of every row
    kernel = kernel.reshape(5, -1)

    def loss(kernel: Any) -> Any:
        logits = ops.reshape(ops.matmul(x, kernel), (-1, TASKS, 3))
        balance = Balance(1.0)
        balance(ops.softmax(logits), training=True)
        return balance.losses[0]

    def importance(kernel: Any) -> np.ndarray:
        mmoe.input_gate.kernel.assign(kernel)
        return np.asarray(mmoe(x, return_gates=True)[1]).mean(axis=(0, 1))

    assert importance(kernel).max() > 0.8
    for _ in range(60):
        kernel = kernel - 0.3 * gradient(loss, kernel)
    np.testing.assert_allclose(importance(kernel), 1 / 3, atol=0.02)


@pytest.mark.parametrize("experts", [MMoE(2, 3, (4,)), ProgressiveExperts(2, 1, 1, 1, (4,))])
def test_heads_add_the_penalty_of_their_experts(experts: Any) -> None:
    x = RNG.normal(size=(B, T, 5)).astype("float32")
    heads = TaskHeads(["click", "buy"], experts=experts, balance=0.3)
    logits = heads(x, row_mask=WHERE, training=True)
    (loss,) = heads.losses
    plain, gates = heads(x, row_mask=WHERE, return_gates=True)
    by_task = np.stack([np.asarray(gates[task]) for task in ("click", "buy")], axis=2)
    counts = getattr(experts, "task_counts", 1)
    assert float(loss) == pytest.approx(0.3 * variation(by_task, WHERE, counts), rel=1e-4)
    for task, logit in logits.items():
        np.testing.assert_allclose(logit, plain[task], rtol=1e-5, atol=1e-6)
    revived = TaskHeads.from_config(heads.get_config())
    assert revived.get_config()["balance"] == 0.3


def test_experts_without_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="`balance` makes the shares of experts equal"):
        TaskHeads(["click", "buy"], balance=0.1)
    experts = MMoE(2, gate="attention", mechanism=Linear())
    with pytest.raises(ValueError, match="needs `experts` whose gates are weights"):
        TaskHeads(["click", "buy"], experts=experts, balance=0.1)
    with pytest.raises(ValueError, match="`factor` must be a finite number of at least 0"):
        Balance(-0.1)
