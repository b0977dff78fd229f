"""Gradients of embedding tables: the rows that a batch looked up, where the backend tells them.

TensorFlow gives `IndexedSlices`: an id and a gradient for each lookup, an id as often as it was
looked up. On the other backends every gradient is as large as its variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


class GradientRows(NamedTuple):
    """The rows of a table that a gradient has, U of them."""

    ids: Tensor  # (U,), none twice
    values: Tensor  # (U, E), the sum over the lookups of an id
    lookups: Tensor  # (U,), how many these were


def is_sparse(gradient: Any) -> bool:
    """Whether it has rows only for what was looked up."""
    return _TENSORFLOW and isinstance(gradient, tf.IndexedSlices)


def rows_of(gradient: Any) -> GradientRows | None:
    """Each row once, in the order of their first lookup; None for a dense gradient."""
    if not is_sparse(gradient):
        return None
    ids, positions = tf.unique(gradient.indices)
    positions, count = positions[:, None], tf.size(ids)
    # On a CPU this takes half the time of `unsorted_segment_sum`, or of sorting. The sizes are
    # those of all lookups, which XLA knows, and are then cut.
    values = tf.scatter_nd(positions, gradient.values, tf.shape(gradient.values))
    ones = tf.ones_like(gradient.indices, "float32")
    lookups = tf.scatter_nd(positions, ones, tf.shape(ones))
    return GradientRows(ids, values[:count], lookups[:count])


def values_of(gradient: Any) -> Tensor:
    """All numbers of a gradient that need not be zero; of a sparse one, by lookup."""
    return gradient.values if is_sparse(gradient) else gradient


def dense(gradient: Any, rows: int) -> Tensor:
    """A gradient as large as its variable, which has so many rows."""
    if not is_sparse(gradient):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, rows)


def scaled(gradient: Any, factor: Tensor) -> Any:
    """The gradient times a number; a sparse one stays sparse."""
    if not is_sparse(gradient):
        return gradient * ops.cast(factor, gradient.dtype)
    values = gradient.values * tf.cast(factor, gradient.values.dtype)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def rows_at(variable: Any, ids: Tensor) -> Tensor:
    """Rows of a variable, `variable[ids]`, read alone; ids are not negative.

    `ops.take` of TensorFlow also reads the variable as a whole, and once single rows of it have
    been written, to read it is to copy it.
    """
    if not _TENSORFLOW:
        return ops.take(variable, ids, axis=0)
    value = variable.value if isinstance(variable, keras.Variable) else variable
    if isinstance(value, tf.distribute.DistributedValues):
        value = value._get()  # this replica's; the mirrored variable would be read as a whole
    return tf.gather(value, ids)


def row_update(ids: Tensor, values: Tensor) -> Any:
    """What `Optimizer.assign` takes to write some rows of a variable."""
    return tf.IndexedSlices(values, ids)


def sum_over_replicas(gradients: Sequence[Any]) -> Sequence[Any]:
    """The gradients of the global batch: those of all replicas of `tf.distribute`, added up."""
    context = tf.distribute.get_replica_context() if _TENSORFLOW else None
    if context is None or context.num_replicas_in_sync == 1:
        return gradients
    return context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
