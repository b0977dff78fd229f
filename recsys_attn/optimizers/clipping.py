"""Clipping by norms, for gradients with repeated ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.backend.sparse_gradients import rows_of, scaled, sum_over_replicas, values_of
from recsys_attn.tensors import Tensor


def clip_by_global_norm(gradients: Sequence[Any], limit: float) -> list[Any]:
    """Returns all gradients times `min(1, limit / norm)`, with their common norm.

    The norm is that of the whole batch, after the sum over lookups and replicas. The result is
    still by lookup and replica.
    """
    squares = [_squared_norm(gradient) for gradient in sum_over_replicas(gradients)]
    factor = clip_factor(ops.sum(ops.stack(squares)), limit)
    return [scaled(gradient, factor) for gradient in gradients]


def clip_factor(squared_norm: Tensor, limit: float) -> Tensor:
    """Returns `min(1, limit / norm)`; NaN if the norm is not finite, so that it is noticed."""
    norm = ops.sqrt(squared_norm)
    return limit / ops.maximum(norm, limit) + (norm - norm)


def _squared_norm(gradient: Any) -> Tensor:
    rows = rows_of(gradient)
    values = values_of(gradient) if rows is None else rows.values
    return ops.sum(ops.square(ops.cast(values, "float32")))
