"""Causal linear attention with a decay, in chunks of positions."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.causal_prefix_sums import chunks
from recsys_attn.attention.core.head_layout import batched_matmul
from recsys_attn.backend.scans import states_before
from recsys_attn.tensors import Tensor

# With shares of at least exp(-5), factors of a chunk lie between exp(-75) and exp(75).
CHUNK = 16


def decayed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_shares: Tensor,
    *,
    per_channel: bool = False,
    floor: float = 0.0,
) -> Tensor:
    """`output[t] = sum_{s <= t} (query[t] . (prod_{s < j <= t} share[j] * key[s])) value[s]`.

    The output is normalised as in `prefix_attention`. Pairs inside a chunk are computed directly,
    and earlier chunks enter as one state, which goes from chunk to chunk.

    Args:
        query: Features of the queries, (B, N, S, M).
        key: Features of the keys, (B, N, S, M).
        value: (B, N, S, V).
        log_shares: Logarithms of the shares that are left, (B, N, S, 1 or M).
        per_channel, floor: See `prefix_attention`.

    Returns:
        (B, N, S, V).
    """
    batch, heads, length, size = ops.shape(value)
    # The last column sums up the features.
    value = ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)
    query, key, value, log_shares = (chunks(x, CHUNK) for x in (query, key, value, log_shares))
    decay = ops.cumsum(log_shares, axis=2)  # since the start of the chunk
    since = decay - decay[:, :, :1]  # since its first event
    later, earlier = ops.exp(since), key * ops.exp(-since)
    whole = decay[:, :, -1:]
    sums = batched_matmul(ops.swapaxes(key * ops.exp(whole - decay), 2, 3), value)
    before = _before(sums, ops.exp(ops.swapaxes(whole, 2, 3)), heads)  # (B, N * C, M, V + 1)
    if per_channel:
        running = later * ops.cumsum(earlier, axis=2)
        running = running + ops.exp(decay) * ops.swapaxes(before[..., -1:], 2, 3)
        query = query / ops.maximum(running, floor)
    steps = ops.arange(CHUNK)
    similarity = batched_matmul(query * later, ops.swapaxes(earlier, 2, 3))
    # `where` and not a product: infinity times zero is NaN.
    similarity = ops.where(steps[:, None] >= steps, similarity, 0.0)
    output = batched_matmul(similarity, value) + batched_matmul(query * ops.exp(decay), before)
    output, totals = output[..., :-1], output[..., -1:]
    if not per_channel:
        output = output / ops.maximum(totals, floor)
    output = ops.reshape(output, (batch, heads, ops.shape(output)[1] // heads * CHUNK, size))
    return ops.slice(output, [0, 0, 0, 0], [batch, heads, length, size])


def _before(sums: Tensor, shares: Tensor, heads: int) -> Tensor:
    """The state before each chunk: (B, N * C, M, V), (B, N * C, 1 or M, 1) -> (B, N * C, M, V)."""
    batch, count, rows, columns = ops.shape(sums)
    shares = ops.broadcast_to(shares, (batch, count, rows, 1))
    both = ops.concatenate([sums, shares], axis=-1)
    both = ops.reshape(both, (batch, heads, count // heads, rows, columns + 1))

    def step(state: Tensor, chunk: Tensor) -> Tensor:
        return state * chunk[..., -1:] + chunk[..., :-1]

    empty = ops.zeros((batch, heads, rows, columns), dtype=sums.dtype)
    before = states_before(step, empty, ops.moveaxis(both, 2, 0))
    return ops.reshape(ops.moveaxis(before, 0, 2), (batch, count, rows, columns))
