"""A structure of tensors as one vector for each user, with a mark of the weights."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

START, STEP, RANK_FROM_STATE = "start", "step", "rank_from_state"
STATE = "state"


def fingerprint(model: keras.Model) -> int:
    """Returns a number of the weights of a model, from 1 to the largest that float32 holds."""
    checksum = 0
    for weight in model.weights:
        checksum = zlib.crc32(np.ascontiguousarray(weight).data, checksum)
    return checksum % (2**24 - 1) + 1


class PackedState:
    """Puts a structure into a state `(B, D)` and takes it out again.

    A state begins with the fingerprint of the weights. The structure of a state of other weights is
    zeros, with which arithmetic is defined: an error would fail the other requests of a batch too.

    Args:
        mark: The fingerprint of the weights.
        empty: The structure for one user, for its shapes and dtypes.
    """

    def __init__(self, mark: int, empty: Any) -> None:
        flat = keras.tree.flatten(empty)
        self._mark = mark
        self._empty = empty
        self._shapes = [tuple(part.shape[1:]) for part in flat]
        self._dtypes = [part.dtype for part in flat]
        self._sizes = [math.prod(shape) for shape in self._shapes]

    @property
    def spec(self) -> tf.TensorSpec:
        """The state as an input."""
        return tf.TensorSpec([None, 1 + sum(self._sizes)], tf.float32)

    def pack(self, structure: Any, is_current: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the state; `is_current` `(B,)` is False for rows of other weights."""
        flat = keras.tree.flatten(structure)
        mark = tf.fill([tf.shape(flat[0])[0], 1], float(self._mark))
        if is_current is not None:
            mark = tf.where(is_current[:, None], mark, 0.0)
        parts = [
            tf.reshape(tf.cast(part, tf.float32), [-1, size])
            for part, size in zip(flat, self._sizes, strict=True)
        ]
        return tf.concat([mark, *parts], axis=1)

    def unpack(self, state: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns the structure, and `is_current` `(B,)`."""
        is_current = state[:, 0] == float(self._mark)
        parts = tf.split(tf.where(is_current[:, None], state, 0.0)[:, 1:], self._sizes, axis=1)
        flat = [
            tf.cast(tf.reshape(part, [-1, *shape]), dtype)
            for part, shape, dtype in zip(parts, self._shapes, self._dtypes, strict=True)
        ]
        return keras.tree.pack_sequence_as(self._empty, flat), is_current


def after_steps(structure: Any, steps: tf.Tensor, step: Callable[[tf.Tensor, Any], Any]) -> Any:
    """Returns a structure after `structure = step(t, structure)` for each t below `steps`."""

    def body(t: tf.Tensor, *flat: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (t + 1, *keras.tree.flatten(step(t, packed(flat))))

    def packed(flat: Iterable[tf.Tensor]) -> Any:
        return keras.tree.pack_sequence_as(structure, list(flat))

    first = keras.tree.flatten(structure)
    shapes = (tf.TensorShape([]), *(tf.TensorShape([None, *x.shape[1:]]) for x in first))
    _, *flat = tf.while_loop(lambda t, *_: t < steps, body, (tf.constant(0), *first), shapes)
    return packed(flat)
