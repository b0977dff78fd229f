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
