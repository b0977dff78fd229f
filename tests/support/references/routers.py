"""Which tokens meet in each router, and what becomes of it: loops in float64 NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support import reference

Array = np.ndarray


def attended(logits: Array, allowed: Array, value: Array) -> Array:
    """Softmax over the pairs allowed (B, N, T, S) of the values (B, S, N, V)."""
    return reference.weighted_sums(reference.softmax_weights(logits, allowed), value)


def block_pairs(
    length: int, size: int, before: int, after: int, first: int, last: int, plan: Array
) -> Array:
    """Queries (rows) and keys (columns) whose blocks meet, for a plan of random blocks."""
    blocks = -(-length // size)
    edges = [*range(first), *range(blocks - last, blocks)]
    pairs = np.zeros((length, length), bool)
    for t, s in np.ndindex(pairs.shape):
        i, j = t // size, s // size
        pairs[t, s] = i - before <= j <= i + after or i in edges or j in edges or j in plan[i]
    return pairs


def lsh_pairs(key: Array, rotations: list[Array], size: int, real: Array) -> Array:
    """Pairs of (S, H) that meet in any of the rounds, each with its rotation (H, buckets / 2)."""
    length = len(key)
    pairs = np.zeros((length, length), bool)
    for rotation in rotations:
        buckets = [int(np.argmax([*(x @ rotation), *(-x @ rotation)])) for x in key]
        order = sorted((not real[i], buckets[i], i) for i in range(length))
        chunk = {i: place // size for place, (_, _, i) in enumerate(order)}
        for t, s in np.ndindex(pairs.shape):
            near = chunk[t] - chunk[s] in (0, 1)
            pairs[t, s] |= near and buckets[t] == buckets[s] and real[t] and real[s]
    return pairs


def causal_bucket_pairs(buckets: Sequence[int], window: int, real: Array) -> Array:
    """Each token with the last `window` of its bucket, up to itself: (S, S)."""
    pairs = np.zeros((len(buckets), len(buckets)), bool)
    for t in np.flatnonzero(real):
        same = [s for s in range(t + 1) if real[s] and buckets[s] == buckets[t]]
        pairs[t, same[-window:]] = True
    return pairs


def normalised(x: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6)


def k_means(
    query: Array,
    key: Array,
    value: Array,
    centroids: Array,
    window: int,
    query_real: Array,
    key_real: Array,
) -> Array:
    """One head of one example: (S, H), (S, H), (S, V), (C, H) -> (S, V)."""
    total, count = np.zeros(value.shape), np.zeros(len(value))
    for centroid in centroids:
        members = []
        for side, real in ((query, query_real), (key, key_real)):
            best = sorted(np.flatnonzero(real), key=lambda i: -centroid @ normalised(side[i]))
            members.append(best[:window])
        for t in members[0]:
            logits = [query[t] @ key[s] / np.sqrt(len(centroid)) for s in members[1]]
            count[t] += 1
            if logits:
                total[t] += reference.softmax(logits) @ value[members[1]]
    return total / np.maximum(count, 1)[:, None]


def moved_centroids(sides: list[tuple[Array, Array]], centroids: Array, decay: float) -> Array:
    """One head, (C, H), after it has seen tokens (B, S, H) with their masks (B, S)."""
    met: list[list[Array]] = [[] for _ in centroids]
    for x, real in sides:
        for index in np.argwhere(real):
            token = normalised(x[tuple(index)])
            nearest = np.argmax([token @ c / np.linalg.norm(c) for c in centroids])
            met[nearest].append(token)
    return np.array(
        [
            decay * centroid + (1 - decay) * np.mean(tokens, axis=0) if tokens else centroid
            for centroid, tokens in zip(centroids, met, strict=True)
        ]
    )


def sorted_blocks(
    key: Array,
    value: Array,
    kernels: Sequence[Array],
    size: int,
    real: Array,
    iterations: int,
    temperature: float,
    causal: bool = False,
) -> list[list[tuple[float, Array, Array]]]:
    """What stands at each place of the sort: share of real tokens, mixed key and mixed value."""
    length, blocks = len(key), -(-len(key) // size)
    slots = [list(range(i * size, (i + 1) * size)) for i in range(blocks)]
    exists = [[s < length and real[s] for s in slot] for slot in slots]
    sums = [
        sum((key[s] for s in slot if s < length and real[s]), np.zeros(key.shape[1]))
        for slot in slots
    ]
    if causal:  # the sum of all blocks before
        sums = [sum(sums[:i], np.zeros(key.shape[1])) for i in range(blocks)]
    logits = np.array([reference.relu(x @ kernels[0]) @ kernels[1][:, :blocks] for x in sums])
    some = np.array([any(each) for each in exists])
    allowed = np.tri(blocks, k=-1, dtype=bool) & some if causal else some[:, None] & some
    sort = np.where(allowed, np.exp(logits / temperature), 0.0)
    for _ in range(iterations if causal else 0):
        sort = sort / np.maximum(sort.sum(axis=1, keepdims=True), 1e-300)
        sort = sort / np.maximum(np.cumsum(sort, axis=0), 1e-300)
    for _ in range(0 if causal else iterations):
        for i in np.flatnonzero(some):
            sort[i] /= sort[i].sum()
        for j in np.flatnonzero(some):
            sort[:, j] /= sort[:, j].sum()
    places: list[list[tuple[float, Array, Array]]] = [[] for _ in range(blocks)]
    for i, u in np.ndindex(blocks, size):
        met = [(sort[i, j], slots[j][u]) for j in range(blocks) if exists[j][u]]
        share = sum(weight for weight, _ in met)
        if share:
            mixed = [sum(weight * x[s] for weight, s in met) for x in (key, value)]
            places[i].append((share / sort[i].sum(), *mixed))
    return places


def sinkhorn(
    query: Array,
    key: Array,
    value: Array,
    kernels: tuple[Array, Array],
    size: int,
    real: Array,
    iterations: int = 8,
    temperature: float = 0.75,
    causal: bool = False,
) -> Array:
    """One head of one example: (S, H), (S, H), (S, V), (H, U) and (U, blocks) -> (S, V)."""
    places = sorted_blocks(key, value, kernels, size, real, iterations, temperature, causal)
    output = np.zeros(value.shape)
    for t in range(len(key)):
        i = t // size
        end = t + 1 if causal else min((i + 1) * size, len(key))
        own = [s for s in range(i * size, end) if real[s]]
        output[t] = shared_softmax(query[t], [*places[i], *((1.0, key[s], value[s]) for s in own)])
    return output


def shared_softmax(query: Array, met: list[tuple[float, Array, Array]]) -> Array | float:
    """Attention to keys that count by their shares; nothing for none."""
    if not met:
        return 0.0
    weights = [share * np.exp(query @ key / np.sqrt(len(key))) for share, key, _ in met]
    return np.array(weights) @ np.array([value for *_, value in met]) / np.sum(weights)
