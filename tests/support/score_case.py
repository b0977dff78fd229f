"""Scores under test: their inputs, and a loop over pairs that computes the same."""

from __future__ import annotations

import numpy as np

from recsys_attn.attention.scores import Score
from tests.support.arrays import Array, normal
from tests.support.references import scores as reference

B, T, S, N, H = 2, 3, 5, 7, 4
LENGTH = 12  # of the scores that have one, more than S


def vectors(queries: int = T, keys: int = S) -> list[Array]:
    """A query and a key."""
    return normal((B, queries, N, H), (B, keys, N, H))


def positions(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(4)
    return [rng.integers(LENGTH, size=shape).astype("int32") for shape in shapes]


def with_random_weights(layer: Score, query: Array, key: Array) -> Score:
    """A built layer, of whose weights none is zero."""
    if not layer.built:
        layer.build(query.shape, key.shape)
    layer.set_weights(normal(*(weight.shape for weight in layer.weights)))
    return layer


def expected(
    pair_score: reference.PairScore,
    query: Array,
    key: Array,
    places: tuple[Array, Array] | None = None,
    batch: int = 1,
) -> Array:
    """The logits, with a batch of 1 repeated; at the natural positions where none are given."""
    batch, heads = max(len(query), len(key), batch), query.shape[2]
    query, key = (np.repeat(x, batch // len(x), axis=0).astype("float64") for x in (query, key))
    rows, columns = reference.natural(query, key) if places is None else places
    rows, columns = (np.broadcast_to(p, (batch, heads, p.shape[-1])) for p in (rows, columns))
    return reference.over_pairs(pair_score, query, key, rows, columns)
