"""Elementwise work in one pass over memory, where the backend would take one for each operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import keras

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


def fused(
    function: Callable[..., Any], gradient: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The function, which XLA compiles inside of a TensorFlow graph on a CPU.

    For operations on elements and their sums: what bounds them is memory, and XLA reads and
    writes it once for many of them. Matrix products take no less time with it.

    Called eagerly the function stays as it is, since XLA would compile it for each new shape; so
    does it where there is a GPU, which was not measured and may lack what XLA needs, and on the
    other backends, which compile whole programs. A graph with it asks for XLA wherever it is run:
    nothing that is exported may call it.

    Args:
        function: Of tensors alone.
        gradient: That by the first tensor, the only one to have one, as a function of the output
            and the gradient by the output; it is not compiled. XLA's where None.
    """
    if not _TENSORFLOW:
        return function
    compiled = tf.function(function, autograph=False, jit_compile=True)
    if gradient is not None:
        compiled = _with_gradient(compiled, gradient)

    @wraps(function)
    def call(*tensors: Any) -> Any:
        if tf.executing_eagerly() or tf.config.list_physical_devices("GPU"):
            return function(*tensors)
        # Identities, which move nothing: the gradient of a branch of `tf.cond` cannot hand a
        # tensor of the branch to XLA.
        return compiled(*map(tf.identity, tensors))

    return call


def _with_gradient(
    function: Callable[..., Any], gradient: Callable[..., Any]
) -> Callable[..., Any]:
    @tf.custom_gradient
    def call(*tensors: Any) -> Any:
        output = function(*tensors)
        return output, lambda by: (gradient(output, by), *[None] * (len(tensors) - 1))

    return call
