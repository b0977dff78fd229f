"""Different ids among many, so that a row of a table is read once."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


def distinct(ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns different ids `(U,)`, and the place of each of `ids` `(...)` among them.

    On TensorFlow these are the ids that occur; on backends with static shapes all ids below `size`,
    so that the place of an id is the id.
    """
    if not _TENSORFLOW:
        return ops.arange(size, dtype="int32"), ids
    values, places = tf.unique(tf.reshape(ids, [-1]))
    return values, tf.reshape(places, tf.shape(ids))
