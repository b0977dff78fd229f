"""Dropout with faster random numbers in TensorFlow's graphs on a CPU."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.backend.compiling import compiles, fused
from recsys_attn.layer import Rematerialised
from recsys_attn.tensors import Tensor

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

_BITS = 24  # of a random number
# XLA compiles each size: there are 8 from one power of two to the next.
_SIZES_BY_OCTAVE = 8


@keras.saving.register_keras_serializable(package="recsys_attn")
class Dropout(Rematerialised, keras.layers.Dropout):
    """Keras' dropout, whose random numbers XLA computes in training on TensorFlow and a CPU.

    `y = x / (1 - rate)` for a share of `1 - rate` of the entries, drawn anew in each call, and 0
    for the others; `y = x` outside training. `docs/reference/benchmarks.md` has the time of both.

    The numbers are those of SplitMix64 from the state of Keras' seed generator: Steele, Lea and
    Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Eager calls, GPUs and
    other backends draw as Keras does.

    Args:
        rate: Share of the entries that is dropped. Raise it against overfitting.

    Call arguments:
        inputs: Of any shape.
        training: Whether to drop.

    Returns:
        A tensor of the shape of the inputs.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.backend.dropout import Dropout
    >>> np.asarray(Dropout(0.5)(np.ones((1, 3), "float32"), training=False)).tolist()
    [[1.0, 1.0, 1.0]]
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        drops = training and 0 < self.rate < 1
        if not (drops and self.noise_shape is None and compiles()):
            return super().call(inputs, training=training)
        count = tf.size(inputs)
        state = tf.cast(self.seed_generator.next(), "uint64")
        least = tf.constant(round(self.rate * 2**_BITS), "int32")
        factors = _factors(_rounded(count), state, least, tf.constant(1 / (1 - self.rate)))
        factors = tf.reshape(tf.stop_gradient(factors)[:count], tf.shape(inputs))
        return inputs * tf.cast(factors, inputs.dtype)


def _rounded(count: Any) -> Any:
    """Returns the next larger of the sizes that are compiled."""
    octave = tf.math.log(tf.maximum(tf.cast(count, "float32"), 1.0)) / tf.math.log(2.0)
    unit = tf.bitwise.left_shift(1, tf.cast(octave, "int32")) // _SIZES_BY_OCTAVE
    unit = tf.maximum(unit, 1)
    return -(-count // unit) * unit


def _draws(count: Any, state: Any, least: Any, factor: Any) -> Any:
    """Returns the factors `(count,)`: 0, or `factor` where the number is at least `least`."""
    seed, call = tf.unstack(state)
    begin = split_mix(split_mix(seed) + call)
    numbers = split_mix(begin + tf.cast(tf.range(count), "uint64") * _constant(0x9E3779B97F4A7C15))
    highest = tf.bitwise.right_shift(numbers, _constant(64 - _BITS))
    return tf.where(tf.cast(highest, "int32") >= least, factor, 0.0)


def split_mix(state: Any) -> Any:
    """Returns the number of a state of SplitMix64."""
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        shifted = tf.bitwise.right_shift(state, _constant(shift))
        state = tf.bitwise.bitwise_xor(state, shifted) * _constant(multiplier)
    return state


def _constant(value: int) -> Any:
    return tf.constant(value, "uint64")


_factors = fused(_draws)
