"""Recurrences over an axis."""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


def states_before(
    step: Callable[[Tensor, Tensor], Tensor], initial: Tensor, inputs: Tensor
) -> Tensor:
    """Returns the state before each input of a recurrence: `s[0] = initial`, `s[t] = step(s, x)`.

    On TensorFlow it is not Keras' scan, whose gradient XLA cannot compile where the length is
    unknown.

    Args:
        step: From a state and an input to the next state, of the same shape.
        initial: The first state, (...).
        inputs: (T, ...).

    Returns:
        (T, ...), the states.
    """
    if not _TENSORFLOW:
        return ops.scan(lambda state, x: (step(state, x), state), initial, inputs)[1]
    after = tf.scan(step, inputs, initializer=initial)
    return tf.concat([initial[None], after], axis=0)[:-1]
