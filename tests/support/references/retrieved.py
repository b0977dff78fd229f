"""Which keys a query from elsewhere finds, by loops in float64 NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.references.patterns import random_plan
from tests.support.references.routers import normalised, shared_softmax, sorted_blocks

Array = np.ndarray


def lsh(
    query: Array, key: Array, rotations: list[Array], size: int, real: Array, positions: Array
) -> Array:
    """(T, H), (S, H), for each round a rotation (H, buckets / 2) -> found (T, S)."""
    found = np.zeros((len(query), len(key)), bool)
    for rotation in rotations:
        wanted, buckets = (
            [int(np.argmax([*(x @ rotation), *(-x @ rotation)])) for x in side]
            for side in (query, key)
        )
        for t, bucket in enumerate(wanted):
            there = [s for s in range(len(key)) if real[s] and buckets[s] == bucket]
            newest = sorted(there, key=lambda s: positions[s])[-size:]
            found[t, newest] = True
    return found


def k_means(query: Array, key: Array, centroids: Array, window: int, real: Array) -> Array:
    """(T, H), (S, H), (C, H) -> found (T, S)."""
    found = np.zeros((len(query), len(key)), bool)
    for t, x in enumerate(query):
        cosines = [normalised(x) @ c / np.linalg.norm(c) for c in centroids]
        centroid = centroids[int(np.argmax(cosines))]
        best = sorted(np.flatnonzero(real), key=lambda s: -centroid @ normalised(key[s]))
        found[t, best[:window]] = True
    return found


def blocks(
    rows: Array,
    columns: Array,
    size: int,
    before: int,
    after: int,
    edges: tuple[int, int],
    random: tuple[int, int],
    real: Array,
) -> Array:
    """Positions of queries (T,) and of keys (S,), random blocks and a seed -> found (T, S)."""
    standing = real & (columns >= 0) & (columns < len(columns))
    count = max(-(-(max(columns[standing], default=-1) + 1) // size), 1)
    everybody = [*range(edges[0]), *range(count - edges[1], count)]
    found = np.zeros((len(rows), len(columns)), bool)
    for t, s in np.ndindex(found.shape):
        i, j = rows[t] // size, columns[s] // size
        drawn = random_plan(int(i), int(count), *random)
        found[t, s] = i - before <= j <= i + after or j in everybody or j in drawn
        found[t, s] &= standing[s]
    return found


def first_sorted_block(
    query: Array,
    key: Array,
    value: Array,
    kernels: Sequence[Array],
    size: int,
    real: Array,
    iterations: int,
    temperature: float,
) -> Array:
    """One head of one example: (T, H), (S, H), (S, V) -> (T, V)."""
    places = sorted_blocks(key, value, kernels, size, real, iterations, temperature)
    first = next((place for place in places if place), [])
    return np.array([shared_softmax(x, first) + np.zeros(value.shape[1]) for x in query])
