"""Scores of many positions and their gradients, computed in chunks of positions.

A chunk has about `CHUNK_NUMBERS` numbers at a time, which a processor's cache holds nearly: larger
ones are not faster.
"""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from recsys_attn.backend.chunks import in_chunks
from recsys_attn.tensors import Tensor

CHUNK_NUMBERS = 2**21
MOST_ROWS_PER_DRAW = 32  # `benchmarks/drawn_scores.py` has the times


def cross_entropy(
    states: Tensor, table: Tensor, targets: Tensor, weights: Tensor, chunk: int
) -> Tensor:
    """Returns the weighted sum of the cross-entropies over all rows of a table.

    `loss = sum_i w_i (log sum_j exp(h_i . e_j) - h_i . e_(y_i))`. The loss of a chunk and its
    gradients by the states and the table are computed together, so that no logits are kept; the
    weights have no gradient.

    Args:
        states: h, `(P, E)`, float32.
        table: e, `(V, E)`, float32.
        targets: y, `(P,)`, rows of the table.
        weights: w, `(P,)`.
        chunk: Number of positions whose logits exist at once.

    Returns:
        A scalar.

    Sources: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", ICLR 2025,
    arXiv 2411.09009; Hsu et al., "Liger Kernel", 2024, arXiv 2410.10989.
    """

    @ops.custom_gradient
    def total(states: Tensor, table: Tensor, targets: Tensor, weights: Tensor) -> Any:
        across = ops.transpose(table)

        def step(sums: Any, places: Tensor, counts: Tensor) -> Any:
            loss, by_table = sums
            vectors, wanted = ops.take(states, places, axis=0), ops.take(targets, places)
            weight = (ops.take(weights, places) * counts)[:, None]
            target = ops.take(table, wanted, axis=0)
            logits = ops.matmul(vectors, across)
            # With `initial` Keras allows that there are no positions.
            most = ops.max(logits, axis=-1, keepdims=True, initial=-math.inf)
            parts = ops.exp(logits - most)
            whole = ops.sum(parts, axis=-1, keepdims=True)
            losses = most + ops.log(whole) - ops.sum(vectors * target, axis=-1, keepdims=True)
            share = weight / whole
            by_table = by_table + ops.matmul(ops.transpose(parts), share * vectors)
            by_table = by_table - ops.segment_sum(weight * vectors, wanted, table.shape[0])
            by_states = share * ops.matmul(parts, table) - weight * target
            return (loss + ops.sum(weight * losses), by_table), by_states

        start = (ops.zeros((), "float32"), ops.zeros_like(table))
        (loss, by_table), by_states = in_chunks(step, start, ops.shape(states)[0], chunk)
        return loss, lambda by: (by * by_states, by * by_table, None, None)

    return total(states, table, targets, weights)


def scores_at(states: Tensor, rows: Tensor, places: Tensor, most: int) -> Tensor:
    """Returns the scores of some rows at each position, `h_i . e_(places_ij)`.

    Few rows are multiplied as a whole, and the scores read from the products: a product of matrices
    takes less time than to collect a row for each score.

    Args:
        states: h, `(P, E)`, float32.
        rows: e, `(U, E)`, float32.
        places: `(P, K)`, rows of each position.
        most: Greatest possible U, where U itself is known only in a call.

    Returns:
        `(P, K)`.
    """
    count, draws = ops.shape(states)[0], places.shape[1]
    if most <= MOST_ROWS_PER_DRAW * draws:
        forward, backward, numbers = _among_all, _among_all_gradients, most
    else:
        forward, backward, numbers = _collected, _collected_gradients, draws * states.shape[1]
    chunk = max(1, CHUNK_NUMBERS // numbers)

    @ops.custom_gradient
    def scores(states: Tensor, rows: Tensor, places: Tensor) -> Any:
        def step(sums: Any, at: Tensor, counts: Tensor) -> Any:
            return sums, forward(ops.take(states, at, axis=0), rows, ops.take(places, at, axis=0))

        def gradient(by: Tensor) -> Any:
            def step(sums: Any, at: Tensor, counts: Tensor) -> Any:
                vectors, chosen = ops.take(states, at, axis=0), ops.take(places, at, axis=0)
                by_own = ops.take(by, at, axis=0) * counts[:, None]
                by_states, by_rows = backward(by_own, vectors, rows, chosen)
                return (sums[0] + by_rows,), by_states

            (by_rows,), by_states = in_chunks(step, (ops.zeros_like(rows),), count, chunk)
            return by_states, by_rows, None

        return in_chunks(step, (), count, chunk)[1], gradient

    return scores(states, rows, ops.cast(places, "int32"))


def _collected(states: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    return ops.matmul(ops.take(rows, places, axis=0), states[..., None])[..., 0]


def _collected_gradients(by: Tensor, states: Tensor, rows: Tensor, places: Tensor) -> Any:
    by_each = ops.reshape(by[..., None] * states[:, None], (-1, states.shape[1]))
    by_rows = ops.segment_sum(by_each, ops.reshape(places, (-1,)), ops.shape(rows)[0])
    return ops.matmul(by[:, None], ops.take(rows, places, axis=0))[:, 0], by_rows


def _among_all(states: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    every = ops.matmul(states, ops.transpose(rows))
    return ops.take(ops.reshape(every, (-1,)), _flat(places, ops.shape(rows)[0]))


def _among_all_gradients(by: Tensor, states: Tensor, rows: Tensor, places: Tensor) -> Any:
    count, total = ops.shape(states)[0], ops.shape(rows)[0]
    flat = ops.reshape(_flat(places, total), (-1,))
    every = ops.segment_sum(ops.reshape(by, (-1,)), flat, count * total)
    every = ops.reshape(every, (count, total))
    return ops.matmul(every, rows), ops.matmul(ops.transpose(every), states)


def _flat(places: Tensor, total: Any) -> Tensor:
    """Places in a matrix of all scores that is laid out row by row."""
    return places + total * ops.arange(ops.shape(places)[0], dtype="int32")[:, None]
