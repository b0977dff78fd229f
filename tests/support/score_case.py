"""Scores under test: their inputs, and what a loop over pairs makes of these."""

from __future__ import annotations

import keras
import numpy as np

from recsys_attn.attention.scores import Score
from tests.support.references import scores as reference

B, T, S, N, H = 2, 3, 5, 7, 4
LENGTH = 12  # of the scores that have one, more than S


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def positions(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.integers(LENGTH, size=shape).astype("int32") for shape in shapes]


def weights(layer: keras.layers.Layer) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def with_random_weights(layer: Score, query: np.ndarray, key: np.ndarray) -> Score:
    """A built layer, of whose weights none is zero."""
    if not layer.built:
        layer.build(query.shape, key.shape)
    layer.set_weights(arrays(*(weight.shape for weight in layer.weights)))
    return layer


def expected(
    pair_score: reference.PairScore,
    query: np.ndarray,
    key: np.ndarray,
    places: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """The logits, with a batch of 1 repeated; at the natural positions where none are given."""
    batch, heads = max(len(query), len(key)), query.shape[2]
    query, key = (np.repeat(x, batch // len(x), axis=0).astype("float64") for x in (query, key))
    rows, columns = reference.natural(query, key) if places is None else places
    rows, columns = (np.broadcast_to(p, (batch, heads, p.shape[-1])) for p in (rows, columns))
    return reference.over_pairs(pair_score, query, key, rows, columns)
