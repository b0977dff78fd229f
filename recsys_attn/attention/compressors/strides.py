"""Blocks of equal width at a stride, the last of them padded with zeros."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.tensors import Tensor


def count_blocks(length: Any, width: int, stride: int) -> Any:
    """Returns the number of blocks that cover `length`, an integer or a scalar tensor."""
    # Python's functions for integers: a traced number is no shape in JAX.
    least, most = (min, max) if isinstance(length, int) else (ops.minimum, ops.maximum)
    return least(length, most(-((width - length) // stride), 0) + 1)


def even_shares(length: Any, width: int, stride: int, key_mask: Tensor | None) -> Tensor:
    """Returns an equal share for each present key of a block: (B or 1, 1, C, S)."""
    starts = ops.arange(count_blocks(length, width, stride), dtype="int32")[:, None] * stride
    place = ops.arange(length, dtype="int32")
    inside = ops.logical_and(place >= starts, place < starts + width)[None]
    inside = inside if key_mask is None else ops.logical_and(inside, key_mask[:, None])
    return shared_evenly(inside)[:, None]


def shared_evenly(inside: Tensor) -> Tensor:
    """Divides booleans by the number of True along the last axis; zeros for none."""
    inside = ops.cast(inside, "float32")
    return inside / ops.maximum(ops.sum(inside, axis=-1, keepdims=True), 1.0)


def overlapping_blocks(x: Tensor, width: int, stride: int) -> Tensor:
    """(B, S, ...) -> (B, C, width, ...): block c starts at position `c * stride`."""
    shape = ops.shape(x)
    count = count_blocks(shape[1], width, stride)
    missing = (count - 1) * stride + width - shape[1]
    x = ops.pad(x, [(0, 0), (0, missing)] + [(0, 0)] * (len(shape) - 2))
    if width == stride:
        return ops.reshape(x, (shape[0], count, width, *shape[2:]))
    starts = ops.arange(count, dtype="int32") * stride
    return ops.take(x, starts[:, None] + ops.arange(width, dtype="int32"), axis=1)
