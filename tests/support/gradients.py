"""Gradients on whichever backend runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest


def derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What gives the gradient of the function's sum, and has derivatives itself."""
    match keras.backend.backend():
        case "jax":
            jax = pytest.importorskip("jax")
            return jax.grad(lambda x: function(x).sum())
        case "torch":
            torch = pytest.importorskip("torch")

            def by_torch(x: Any) -> Any:
                (result,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
                return result

            return by_torch
    tf = pytest.importorskip("tensorflow")

    def by_tensorflow(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(function(x))
        return tape.gradient(total, x)

    return by_tensorflow


def gradient(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Of the sum of what the function returns."""
    tensor = keras.ops.convert_to_tensor(x)
    if keras.backend.backend() == "torch":
        tensor.requires_grad_()
    return keras.ops.convert_to_numpy(derivative(function)(tensor))


def numeric(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Of the same by central differences, for a function of float64 arrays."""
    found, step = np.zeros(x.shape), 1e-6
    for index in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[index] += step
        back[index] -= step
        found[index] = (function(there).sum() - function(back).sum()) / (2 * step)
    return found
