"""The mean of some of several vectors."""

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
