"""Recurrences over an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def last_state(step: Callable[[Tensor, Any], Tensor], initial: Tensor, inputs: Any) -> Tensor:
    """Returns the state after all inputs of such a recurrence; `initial` if there are none.

    Args:
        step: From a state and an input to the next state, of the same shape.
        initial: The first state, (...).
        inputs: (T, ...), or a tuple of such tensors.
    """
    if not _TENSORFLOW:
        return ops.scan(lambda state, x: (step(state, x), None), initial, inputs)[0]
    return tf.foldl(step, inputs, initializer=initial)
