"""Places where a mask is True: only those on TensorFlow, and all with weights elsewhere."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


def places_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns places (P,) in a flat mask, int32, and their weights (P,), float32.

    On TensorFlow these are the places of True, each of weight 1, so that nothing is computed for
    the others; on backends with static shapes all places, with the weight 0 where it is False.
    """
    flat = ops.reshape(mask, (-1,))
    if not _TENSORFLOW:
        return ops.arange(flat.shape[0], dtype="int32"), ops.cast(flat, "float32")
    places = tf.cast(tf.where(flat)[:, 0], "int32")
    return places, tf.ones_like(places, "float32")
