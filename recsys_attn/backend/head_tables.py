"""Reads of tables by head, such as biases by distance."""

from __future__ import annotations

import math

import keras
import numpy as np
from keras import ops

from recsys_attn.tensors import Tensor

_JAX = keras.backend.backend() == "jax"


def read(table: Tensor, index: Tensor) -> Tensor:
    """Reads each head's table: (N, R, ...), (B or 1, N or 1, ...) -> (B or 1, N, ...).

    An entry may be a number or a vector. On JAX each row of a batch reads a copy of a table of
    numbers: on a GPU the additions to one entry wait for each other, so that the gradient of few
    entries by many places would take much longer.
    """
    heads, entries, *entry = table.shape
    rows, _, *places = index.shape
    if _JAX and rows not in (1, None) and not entry:
        copies = ops.broadcast_to(table, (rows, heads, entries))
        flat = ops.broadcast_to(index, (rows, heads, *places))
        flat = ops.reshape(flat, (rows, heads, math.prod(places)))
        return ops.reshape(ops.take_along_axis(copies, flat, axis=-1), (rows, heads, *places))
    first = entries * np.arange(heads, dtype="int32")
    first = first.reshape((heads,) + (1,) * (len(index.shape) - 2))
    return ops.take(ops.reshape(table, (heads * entries, *entry)), ops.add(index, first), axis=0)
