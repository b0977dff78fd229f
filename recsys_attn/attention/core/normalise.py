"""Unit vectors."""

from __future__ import annotations

from keras import ops

from recsys_attn.tensors import Tensor

_EPSILON = 1e-12  # a vector with a smaller squared norm counts as zero


def unit(x: Tensor, length: float = 1.0) -> Tensor:
    """`length * x / |x|` over the last axis, in float32; zero where x is zero."""
    # In float32: the squares of small embeddings vanish in half precision.
    x = ops.cast(x, "float32")
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    # Without the two `where` the gradient at a zero vector would be huge.
    some = ops.greater(squared, _EPSILON)
    return x * ops.where(some, length * ops.rsqrt(ops.where(some, squared, 1.0)), 0.0)
