"""Lists of the pairs inside groups, with their weights."""

from __future__ import annotations

from collections.abc import Sequence

from keras import ops

from recsys_attn.attention.core.weights import SparseWeights
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.tensors import Tensor


def listed(
    batch: Tensor,
    groups: Sequence[Groups],
    weights: Sequence[Tensor],
    shares: Sequence[Tensor | None],
) -> SparseWeights:
    """Returns the pairs of all groups of each example.

    Args:
        batch: Number of examples B; the groups of an example follow each other.
        groups: Groups with indices.
        weights: (G, N, T', S') of each.
        shares: (G, N or 1, T') of each, the share of a group in the output of its queries; None if
            each query is in one group.
    """
    parts = []
    for group, weight, share in zip(groups, weights, shares, strict=True):
        rows, columns = indices_of(group)
        if share is not None:
            weight = weight * ops.cast(share, weight.dtype)[..., None]
        sizes = ops.shape(weight)
        rows, columns = (
            ops.broadcast_to(x, sizes) for x in (rows[..., :, None], columns[..., None, :])
        )
        parts.append([of_examples(x, batch) for x in (rows, columns, weight)])
    return SparseWeights(*(ops.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))


def indices_of(group: Groups) -> tuple[Tensor, Tensor]:
    """Returns the indices of queries (G or 1, N or 1, T') and of keys (G or 1, N or 1, S')."""
    rows = group.query_positions if group.query_index is None else group.query_index
    columns = group.key_positions if group.key_index is None else group.key_index
    if rows is None or columns is None:
        raise NotImplementedError(
            "The groups of a router need `query_index` and `key_index` for weights"
        )
    return rows, columns


def of_pairs(group: Groups, pairs: Tensor, batch: Tensor) -> Tensor:
    """Returns the numbers of the pairs of each group: (G, N or 1, T', S').

    Args:
        group: Groups with indices.
        pairs: (B or 1, N or 1, T, S), such as a mask or a bias.
        batch: Number of examples B; the groups of an example follow each other.
    """
    rows, columns = indices_of(group)
    _, heads, length, keys = ops.shape(pairs)
    index = rows[..., :, None] * keys + columns[..., None, :]
    queries, few = ops.shape(group.query)[1], ops.shape(group.key)[1]
    number, group_heads = ops.shape(group.query)[0], index.shape[1]
    index = ops.reshape(
        ops.broadcast_to(index, (number, group_heads, queries, few)),
        (number, group_heads, queries * few),
    )
    pairs = ops.reshape(pairs, (ops.shape(pairs)[0], heads, length * keys))
    values = at_index(pairs, index, batch)
    return ops.reshape(values, (number, max(heads, group_heads), queries, few))


def at_index(x: Tensor, index: Tensor, batch: Tensor) -> Tensor:
    """Gathers for each group: (B or 1, N or 1, S), (G, N or 1, K) -> (G, N or 1, K)."""
    number, group_heads, few = ops.shape(index)
    heads, length = x.shape[1], ops.shape(x)[2]
    index = of_examples(index[:, :, None], batch)
    pairs = ops.shape(index)[-1]
    x = ops.broadcast_to(x, (batch, heads, length))
    if heads == 1:  # one gather for all heads
        values = ops.take_along_axis(
            x, ops.reshape(index, (batch, 1, group_heads * pairs)), axis=-1
        )
    else:
        index = ops.broadcast_to(index, (batch, heads, pairs))
        values = ops.take_along_axis(x, index, axis=-1)
    several, per_example = max(heads, group_heads), number // _at_least_one(batch)
    values = ops.reshape(values, (batch, several, per_example, few))
    return ops.reshape(ops.transpose(values, (0, 2, 1, 3)), (number, several, few))


def of_examples(x: Tensor, batch: Tensor) -> Tensor:
    """(G, N, T', S') -> (B, N, G / B * T' * S')."""
    groups, heads, rows, columns = ops.shape(x)
    per_example = groups // _at_least_one(batch)
    x = ops.reshape(x, (batch, per_example, heads, rows * columns))
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, heads, per_example * rows * columns))


def every_pair(weights: Tensor) -> SparseWeights:
    """(B, N, T, S) -> a list of T * S pairs."""
    batch, heads, rows, columns = ops.shape(weights)
    index = ops.arange(rows * columns, dtype="int32")
    some = _at_least_one(columns)
    sizes = (batch, heads, rows * columns)
    query, key = (ops.broadcast_to(x, sizes) for x in (index // some, index % some))
    return SparseWeights(query, key, ops.reshape(weights, sizes))


def _at_least_one(count: Tensor) -> Tensor:
    return max(count, 1) if isinstance(count, int) else ops.maximum(count, 1)
