"""AITM's towers equal the paper's equations."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.blocks import Mlp
from recsys_attn.multitask import AdaptiveTransfer
from tests.support import reference
from tests.support.arrays import assert_close, numpy, weights_of
from tests.support.layer_case import randomise

B, T, D, TASKS, U = 2, 3, 5, 3, 4
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


def network(mlp: Mlp, x: np.ndarray) -> np.ndarray:
    found = [w.astype("float64") for w in weights_of(mlp)]
    for kernel, bias in zip(found[::2], found[1::2], strict=True):
        x = reference.relu(x @ kernel + bias)
    return x


def test_layer_equals_the_paper() -> None:
    layer = AdaptiveTransfer(TASKS, (6, U))
    layer(X)
    randomise(layer)
    layer.kernels[0].assign(-layer.kernels[0])
    output, gates = layer(X, return_gates=True)
    for index in np.ndindex(B, T):
        x = X[index].astype("float64")
        state, share = network(layer.towers[0], x), np.array([0.0, 1.0])
        for task in range(TASKS):
            if task:
                parts = [network(layer.passed_on[task - 1], state), network(layer.towers[task], x)]
                kernels = np.split(numpy(layer.kernels[task - 1]).astype("float64"), 3, axis=1)
                scores = [(u @ kernels[0]) @ (u @ kernels[1]) / np.sqrt(U) for u in parts]
                share = reference.softmax(scores)
                state = share[0] * parts[0] @ kernels[2] + share[1] * parts[1] @ kernels[2]
            assert_close(output[index][task], state)
            assert_close(gates[index][task], share)


def test_later_tasks_do_not_reach_earlier_ones() -> None:
    layer = AdaptiveTransfer(TASKS, (U,))
    before = numpy(layer(X))
    kernel = layer.towers[1].dense[0].kernel
    kernel.assign(kernel + 1.0)
    after = numpy(layer(X))
    np.testing.assert_array_equal(before[..., 0, :], after[..., 0, :])
    assert np.abs(before - after)[..., 1:, :].max(axis=(0, 1, 3)).min() > 1e-3


def test_one_task_or_no_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`num_tasks` must be at least 2.*num_tasks=1"):
        AdaptiveTransfer(1)
    with pytest.raises(ValueError, match="`units` must name at least one layer of a tower"):
        AdaptiveTransfer(2, ())
