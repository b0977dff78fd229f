"""Causal linear attention, in chunks of positions."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.head_layout import batched_matmul
from recsys_attn.tensors import Tensor


def prefix_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    chunk: int,
    *,
    per_channel: bool = False,
    floor: float = 0.0,
) -> Tensor:
    """`output[t] = sum_{s <= t} (query[t] . key[s]) value[s]`, normalised.

    Pairs inside a chunk are computed directly, and earlier chunks enter as one sum. A later
    position has no influence, not even by a rounding error.

    Args:
        query: Features of the queries, (B, N, S, M).
        key: Features of the keys, (B, N, S, M).
        value: (B, N, S, V).
        chunk: Number of positions in a chunk; memory grows with it.
        per_channel: Whether to divide the features by their running sum over the keys, instead of
            the output by the running sum of similarities.
        floor: The smallest divisor.

    Returns:
        (B, N, S, V).
    """
    heads, length = key.shape[1], ops.shape(key)[2]
    # At most the length of the sequence, and at least 1 even if every history is empty.
    known = isinstance(length, int)
    chunk = max(1, min(chunk, length)) if known else ops.clip(length, 1, chunk)
    query, key, value = (chunks(x, chunk) for x in (query, key, value))
    transposed = ops.swapaxes(key, 2, 3)
    sums = _before(batched_matmul(transposed, value), heads)  # (B, N * C, M, V)
    totals = _before(ops.sum(transposed, axis=-1, keepdims=True), heads)  # (B, N * C, M, 1)
    if per_channel:
        running = ops.cumsum(key, axis=2) + ops.swapaxes(totals, 2, 3)
        query = query / ops.maximum(running, floor)
    steps = ops.arange(chunk)
    similarity = batched_matmul(query, transposed)
    # `where` and not a product: infinity times zero is NaN.
    similarity = ops.where(steps[:, None] >= steps, similarity, 0.0)
    output = batched_matmul(similarity, value) + batched_matmul(query, sums)
    if not per_channel:
        earlier = batched_matmul(query, totals)
        normaliser = ops.sum(similarity, axis=-1, keepdims=True) + earlier
        output = output / ops.maximum(normaliser, floor)
    batch, count, _, size = ops.shape(output)
    output = ops.reshape(output, (batch, heads, count // heads * chunk, size))
    return ops.slice(output, [0, 0, 0, 0], [batch, heads, length, size])


def chunks(x: Tensor, chunk: Tensor) -> Tensor:
    """(B, N, S, M) -> (B, N * C, chunk, M); the last chunk is padded with zeros."""
    batch, heads, length, size = ops.shape(x)
    padded = ops.pad(x, ((0, 0), (0, 0), (0, -length % chunk), (0, 0)))
    return ops.reshape(padded, (batch, heads * (ops.shape(padded)[2] // chunk), chunk, size))


def _before(sums: Tensor, heads: int) -> Tensor:
    """Sum over the earlier chunks of the same head: (B, N * C, M, V) -> (B, N * C, M, V)."""
    batch, count, rows, columns = ops.shape(sums)
    by_head = ops.reshape(sums, (batch, heads, count // heads, rows, columns))
    shifted = ops.pad(by_head, ((0, 0), (0, 0), (1, 0), (0, 0), (0, 0)))
    shifted = ops.slice(shifted, [0] * 5, ops.shape(by_head))
    return ops.reshape(ops.cumsum(shifted, axis=2), (batch, count, rows, columns))
