"""Gradients on whichever backend runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest


def gradient(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Of the sum of what the function returns."""
    match keras.backend.backend():
        case "jax":
            jax = pytest.importorskip("jax")
            return np.asarray(jax.grad(lambda x: function(x).sum())(x))
        case "torch":
            tensor = keras.ops.convert_to_tensor(x).requires_grad_()
            function(tensor).sum().backward()
            return keras.ops.convert_to_numpy(tensor.grad)
    tf = pytest.importorskip("tensorflow")
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(function(variable))
    return tape.gradient(total, variable).numpy()
