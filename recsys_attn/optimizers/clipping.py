"""Clipping by norms, where a table's gradient has an id more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.backend.gradients import rows_of, scaled, sum_over_replicas, values_of
from recsys_attn.tensors import Tensor


def clip_by_global_norm(gradients: Sequence[Any], limit: float) -> list[Any]:
    """All gradients times `min(1, limit / norm)`, with the norm of all of them together.

    The norm is that of the whole batch: gradients of an id are added up before it is taken, over
    all lookups and all replicas. What is returned are the parts, which still have to be added up.
    """
    squares = [_squared_norm(gradient) for gradient in sum_over_replicas(gradients)]
    factor = clip_factor(ops.sum(ops.stack(squares)), limit)
    return [scaled(gradient, factor) for gradient in gradients]


def clip_factor(squared_norm: Tensor, limit: float) -> Tensor:
    """`min(1, limit / norm)`; NaN where the norm is not finite, so that nothing hides it."""
    norm = ops.sqrt(squared_norm)
    return limit / ops.maximum(norm, limit) + (norm - norm)


def _squared_norm(gradient: Any) -> Tensor:
    rows = rows_of(gradient)
    values = values_of(gradient) if rows is None else rows.values
    return ops.sum(ops.square(ops.cast(values, "float32")))
