"""Weights of the fast mechanisms, and their dense form."""

from __future__ import annotations

from typing import NamedTuple

from keras import ops

from recsys_attn.tensors import Tensor


class SparseWeights(NamedTuple):
    """The pairs that a mechanism computes, and their weights.

    `output[t] = sum_{p: query[p] = t} weight[p] value[key[p]]`, for each head

    A pair may occur several times, such as in several rounds of a hash: its weight is the sum. A
    place that holds no pair has weight 0.

    Attributes:
        query: (..., P) int32, the index of the query of each of P pairs.
        key: (..., P) int32, the index of its key.
        weight: (..., P).
    """

    query: Tensor
    key: Tensor
    weight: Tensor


class SummaryWeights(NamedTuple):
    """The weights of summaries, and the share of each key in a summary.

    `weights = weight share`, a product of matrices

    Attributes:
        weight: (..., T, C), the weight of each of C summaries.
        share: (..., C, S), the share of each key in them; leading sizes of 1 broadcast.
    """

    weight: Tensor
    share: Tensor


def dense_weights(
    weights: Tensor | SparseWeights | SummaryWeights, queries: int, keys: int
) -> Tensor:
    """Returns the weight of each key for each query, from the weights of any mechanism.

    Args:
        weights: Weights that a layer returned with `return_weights`: `SparseWeights` of `Routed`
            and `Lookup`, `SummaryWeights` of `Compressed`, or a tensor of `Dense`, which is
            returned unchanged.
        queries: Number of queries T.
        keys: Number of keys S. T times S numbers are made: keep the sparse form where both are
            large.

    Returns:
        (..., T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, dense_weights
    >>> events = keras.random.normal((2, 100, 8))
    >>> output, weights = MultiHeadAttention(2, 4, "reformer")(events, return_weights=True)
    >>> tuple(dense_weights(weights, 100, 100).shape)
    (2, 2, 100, 100)
    """
    if isinstance(weights, SummaryWeights):
        return ops.matmul(weights.weight, ops.cast(weights.share, weights.weight.dtype))
    if not isinstance(weights, SparseWeights):
        return weights
    *leading, pairs = ops.shape(weights.weight)
    rows = 1
    for size in leading:
        rows = rows * size
    count = rows * queries * keys
    cells = ops.arange(rows, dtype="int32")[:, None] * queries
    cells = (cells + ops.reshape(weights.query, (rows, pairs))) * keys
    cells = ops.reshape(cells + ops.reshape(weights.key, (rows, pairs)), (rows * pairs,))
    flat = ops.reshape(weights.weight, (rows * pairs,))
    # One more cell, so that no number of segments is zero.
    total = ops.segment_sum(flat, ops.minimum(cells, count), count + 1)[:count]
    return ops.reshape(total, (*leading, queries, keys))
