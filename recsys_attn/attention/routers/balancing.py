"""Balanced matrices: Sinkhorn's normalisation of rows and columns."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.tensors import Tensor


def sinkhorn(logits: Tensor, allowed: Tensor, iterations: int) -> Tensor:
    """Returns matrices with rows and columns that sum to one, from logarithms of entries.

    Args:
        logits: (..., C, C), float32.
        allowed: Booleans that broadcast to the logits; the result is 0 for False.
        iterations: Number of normalisations of rows and columns.
    """
    for _ in range(iterations):
        for axis in (-1, -2):
            logits = ops.where(allowed, logits, NEVER)
            logits = logits - ops.logsumexp(logits, axis=axis, keepdims=True)
    return ops.where(allowed, ops.exp(ops.where(allowed, logits, 0.0)), 0.0)


def causal_sinkhorn(logits: Tensor, allowed: Tensor, iterations: int, most: int) -> Tensor:
    """Returns matrices that are balanced with earlier rows only.

    A row is divided by its sum, and an entry by the sum of its column up to its row. So no row
    depends on a later one.

    Args:
        logits: (..., C, C), float32.
        allowed: Booleans that broadcast to the logits; the result is 0 for False.
        iterations: Number of normalisations of rows and columns.
        most: An upper bound of C.
    """
    for _ in range(iterations):
        logits = ops.where(allowed, logits, NEVER)
        logits = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
        logits = ops.where(allowed, logits, NEVER)
        logits = logits - _running_logsumexp(logits, most)
    return ops.where(allowed, ops.exp(ops.where(allowed, logits, 0.0)), 0.0)


def _running_logsumexp(x: Tensor, most: int) -> Tensor:
    """Returns the logsumexp of each entry and those above it, in log2(most) steps."""
    count, shift = ops.shape(x)[-2], 1
    while shift < most:
        widths = [(0, 0)] * (len(x.shape) - 2) + [(shift, 0), (0, 0)]
        above = ops.pad(x, widths, "constant", NEVER)
        x = ops.logaddexp(x, above[..., :count, :])
        shift *= 2
    return x
