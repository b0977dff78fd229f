"""Sparse gradients of embedding tables.

TensorFlow returns `IndexedSlices`: an id and a gradient for each lookup, with repeated ids. On the
other backends every gradient is as large as its variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.backend.compiling import fused
from recsys_attn.tensors import Tensor

_COMPILED = ContextVar("sums over lookups are compiled", default=False)
_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf


class GradientRows(NamedTuple):
    """The U different rows of a sparse gradient."""

    ids: Tensor  # (U,), unique
    values: Tensor  # (U, E), the sum over the lookups of an id
    lookups: Tensor  # (U,), their number


def is_sparse(gradient: Any) -> bool:
    """Returns whether a gradient is sparse."""
    return _TENSORFLOW and isinstance(gradient, tf.IndexedSlices)


def rows_of(gradient: Any) -> GradientRows | None:
    """Returns each row once, in the order of first lookup; None for a dense gradient."""
    if not is_sparse(gradient):
        return None
    ids, places = tf.unique(gradient.indices)
    count = tf.size(ids)
    ones = tf.ones_like(gradient.indices, "float32")
    # Into as many rows as lookups, a number that XLA knows; the result is then cut.
    values, lookups = (_sums(part, places, tf.size(places)) for part in (gradient.values, ones))
    return GradientRows(ids, values[:count], lookups[:count])


def _sums(values: Tensor, places: Tensor, count: Tensor) -> Tensor:
    """Returns the sum of the values of each of `count` places."""
    return (_fused_scatter if _COMPILED.get() else _scatter)(values, places, count)


def _scatter(values: Tensor, places: Tensor, count: Tensor) -> Tensor:
    # On a CPU this takes half the time of `unsorted_segment_sum` or of sorting.
    shape = tf.concat([[count], tf.shape(values)[1:]], axis=0)
    places = tf.expand_dims(places, -1)
    return tf.scatter_nd(places, values, tf.cast(shape, places.dtype))


_fused_scatter = fused(_scatter)


@contextmanager
def compiled_sums(compiled: bool = True) -> Iterator[None]:
    """Lets XLA compile the sums over lookups on a CPU, in a graph, for a fraction of the time.

    For graphs whose number of lookups hardly varies, as XLA compiles for each one again.
    """
    token = _COMPILED.set(compiled)
    try:
        yield
    finally:
        _COMPILED.reset(token)


def values_of(gradient: Any) -> Tensor:
    """Returns the values of a gradient; for a sparse one those of its lookups."""
    return gradient.values if is_sparse(gradient) else gradient


def dense(gradient: Any, rows: int) -> Tensor:
    """Returns a gradient as a dense tensor with this number of rows."""
    if not is_sparse(gradient):
        return gradient
    return _sums(gradient.values, gradient.indices, tf.constant(rows))


def with_penalty(gradient: Any, penalty: Any) -> Any:
    """Returns the sum of a gradient and the dense one of a penalty; either may be None."""
    if gradient is None or penalty is None:
        return penalty if gradient is None else gradient
    return dense(gradient, penalty.shape[0]) + penalty


def whole(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Returns gradients as large as their variables.

    Keras' optimizers take the repeated ids of a sparse gradient for rows of their own: Adam and
    Adagrad add up the squares of the lookups, not the square of their sum, and a step is up to
    `sqrt(lookups)` times as long.
    """
    pairs = zip(gradients, variables, strict=True)
    return [dense(g, v.shape[0]) if is_sparse(g) else g for g, v in pairs]


def scaled(gradient: Any, factor: Tensor) -> Any:
    """Returns the gradient times a number; a sparse one stays sparse."""
    if not is_sparse(gradient):
        return gradient * ops.cast(factor, gradient.dtype)
    values = gradient.values * tf.cast(factor, gradient.values.dtype)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def rows_at(variable: Any, ids: Tensor) -> Tensor:
    """Reads only some rows of a variable, `variable[ids]`; ids are not negative.

    `ops.take` on TensorFlow reads the whole variable, which is a copy once single rows have been
    written.
    """
    if not _TENSORFLOW:
        return ops.take(variable, ids, axis=0)
    value = variable.value if isinstance(variable, keras.Variable) else variable
    if isinstance(value, tf.distribute.DistributedValues):
        value = value._get()  # the copy of this replica; a read of the mirrored variable reads all
        # of it
    return tf.gather(value, ids)


def row_update(ids: Tensor, values: Tensor) -> Any:
    """Returns the argument of `Optimizer.assign` that writes some rows of a variable."""
    return tf.IndexedSlices(values, ids)


def sum_over_replicas(gradients: Sequence[Any]) -> Sequence[Any]:
    """Returns the gradients of the global batch: the sums over replicas of `tf.distribute`."""
    context = tf.distribute.get_replica_context() if _TENSORFLOW else None
    if context is None or context.num_replicas_in_sync == 1:
        return gradients
    return context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
