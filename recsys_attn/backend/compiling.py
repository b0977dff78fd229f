"""Compilation of elementwise functions, for one pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import keras

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


def compiles() -> bool:
    """Returns whether a call of a fused function here and now is compiled."""
    return _TENSORFLOW and not (tf.executing_eagerly() or tf.config.list_physical_devices("GPU"))


def fused(
    function: Callable[..., Any], gradient: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Returns a function that XLA compiles inside a TensorFlow graph on a CPU.

    Use it for elementwise operations and sums, which are bound by memory: XLA needs one pass for
        many of them. Matrix products do not get faster.

    It is not compiled in eager calls (XLA would compile each new shape), with a GPU (not measured),
    or on other backends (they compile whole programs). A graph with it needs XLA at run time, so
    exported functions must not call it.

    Args:
        function: A function of tensors only.
        gradient: The gradient by the first tensor (the others have none), as a function of the
            output and the gradient by the output; not compiled. Defaults to automatic
            differentiation.
    """
    if not _TENSORFLOW:
        return function
    compiled = tf.function(function, autograph=False, jit_compile=True)
    if gradient is not None:
        compiled = _with_gradient(compiled, gradient)

    @wraps(function)
    def call(*tensors: Any) -> Any:
        if not compiles():
            return function(*tensors)
        # Identities cost nothing. Without them the gradient of a branch of `tf.cond` cannot pass a
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
