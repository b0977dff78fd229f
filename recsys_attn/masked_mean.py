"""The mean and the maximum of some of several vectors or numbers."""

from __future__ import annotations

from keras import ops

from recsys_attn.tensors import Tensor


def masked_mean(values: Tensor, present: Tensor) -> Tensor:
    """Returns the mean of the vectors that are present; zeros if there are none.

    Args:
        values: (..., S, E).
        present: (..., S), False for vectors that do not count.

    Returns:
        (..., 1, E).
    """
    weights = ops.cast(present, values.dtype)[..., None]
    total = ops.sum(values * weights, axis=-2, keepdims=True)
    return total / ops.maximum(ops.sum(weights, axis=-2, keepdims=True), 1)


def masked_max(values: Tensor, present: Tensor) -> Tensor:
    """Returns the maximum by channel of the vectors that are present; zeros if there are none.

    Args:
        values: (..., S, E).
        present: (..., S), False for vectors that do not count.

    Returns:
        (..., 1, E).
    """
    known, least = ops.cast(present, "bool")[..., None], float("-inf")
    values = ops.where(known, values, ops.full_like(values, least))
    greatest = ops.max(values, axis=-2, keepdims=True, initial=least)
    some = ops.any(known, axis=-2, keepdims=True)
    return ops.where(some, greatest, ops.zeros_like(greatest))


def mean_where(values: Tensor, present: Tensor | None) -> Tensor:
    """Returns the mean of the numbers that are present, in float32; zero if there are none.

    Args:
        values: Numbers of any shape.
        present: Booleans that broadcast to them; None for all.

    Returns:
        A scalar.
    """
    if present is None:
        return ops.mean(values)
    counts = ops.cast(present, "float32") * ops.ones_like(values)
    return ops.sum(values * counts) / ops.maximum(ops.sum(counts), 1.0)
