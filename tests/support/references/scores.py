"""What the scores compute, one pair of a query and a key at a time, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
# Of q, k, the head n, and the positions i of the query and j of the key.
PairScore = Callable[[Array, Array, int, int, int], float]


def over_pairs(score: PairScore, query: Array, key: Array, rows: Array, columns: Array) -> Array:
    """(B, T, N, H), (B, S, N, H), positions (B, N, T) and (B, N, S) -> (B, N, T, S)."""
    batch, queries, heads, _ = query.shape
    logits = np.zeros((batch, heads, queries, key.shape[1]))
    for b, n, t, s in np.ndindex(logits.shape):
        i, j = int(rows[b, n, t]), int(columns[b, n, s])
        logits[b, n, t, s] = score(query[b, t, n], key[b, s, n], n, i, j)
    return logits


def natural(query: Array, key: Array) -> tuple[Array, Array]:
    """Keys at 0 ... S-1, and the queries at the last T of these."""
    batch, queries, heads, _ = query.shape
    keys = key.shape[1]
    rows, columns = np.arange(keys - queries, keys), np.arange(keys)
    return (
        np.broadcast_to(rows, (batch, heads, queries)),
        np.broadcast_to(columns, (batch, heads, keys)),
    )


def dot(query_bias: Array | None = None, *, scale: bool = False) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        bias = 0 if query_bias is None else query_bias[n]
        return float((q + bias) @ k / (math.sqrt(len(k)) if scale else 1))

    return score


def general(kernel: Array) -> PairScore:
    return lambda q, k, n, i, j: float(q @ kernel[n] @ k)


def additive(query_kernel: Array, key_kernel: Array, vector: Array) -> PairScore:
    """`v^T tanh(W [q; k])` with the concatenation in full."""

    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        kernel = np.concatenate([query_kernel[n], key_kernel[n]])
        return float(vector[n].ravel() @ np.tanh(np.concatenate([q, k]) @ kernel))

    return score


def cosine(temperature: float) -> PairScore:
    return lambda q, k, n, i, j: float(q @ k / np.linalg.norm(q) / np.linalg.norm(k) / temperature)


def qk_norm(
    inner: PairScore, query_gain: Array, key_gain: Array, *, centered: bool = False
) -> PairScore:
    def norm(x: Array, gain: Array) -> Array:
        x = x - x.mean() if centered else x
        return gain * x / math.sqrt((x**2).mean() + 1e-6)

    return lambda q, k, n, i, j: inner(norm(q, query_gain), norm(k, key_gain), n, i, j)


def soft_cap(inner: PairScore, cap: float) -> PairScore:
    return lambda q, k, n, i, j: cap * math.tanh(inner(q, k, n, i, j) / cap)


def temperature(inner: PairScore, log_temperature: Array, least: float) -> PairScore:
    return lambda q, k, n, i, j: inner(q, k, n, i, j) / max(math.exp(log_temperature[n]), least)


def key_only(
    activation: Callable[[Array], Array], kernel: Array, bias: Array, vector: Array
) -> PairScore:
    return lambda q, k, n, i, j: float(vector[n].ravel() @ activation(k @ kernel[n] + bias[n]))


def location(kernel: Array) -> PairScore:
    return lambda q, k, n, i, j: float((q @ kernel[n])[j])


def dense_synthesizer(
    hidden_kernel: Array, hidden_bias: Array, kernel: Array, bias: Array
) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        hidden = np.maximum(q @ hidden_kernel[n] + hidden_bias[n], 0)
        return float((hidden @ kernel[n] + bias[n])[j])

    return score


def random_synthesizer(table: Array) -> PairScore:
    return lambda q, k, n, i, j: float(table[n, i, j])


def factorised_dense_synthesizer(
    first_kernel: Array, first_bias: Array, second_kernel: Array, second_bias: Array
) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        first = q @ first_kernel[n] + first_bias[n].ravel()
        second = q @ second_kernel[n] + second_bias[n].ravel()
        tiled = list(first) * len(second)  # a_1 a_2 a_3 a_1 a_2 a_3
        interleaved = [entry for entry in second for _ in first]  # b_1 b_1 b_1 b_2 b_2 b_2
        return float(tiled[j] * interleaved[j])

    return score


def factorised_random_synthesizer(rows: Array, columns: Array) -> PairScore:
    return lambda q, k, n, i, j: float((rows[n] @ columns[n].T)[i, j])


def relative_dot(
    kernel: Array, position_bias: Array, *, max_distance: int, scale: bool = False
) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        distance = min(max(i - j, -max_distance), max_distance)
        units = kernel.shape[1]
        angles = [distance / 10000 ** (2 * m / units) for m in range(units // 2)]
        wave = np.array([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
        logit = (q + position_bias[n]) @ (wave @ kernel[n])
        return float(logit / (math.sqrt(len(q)) if scale else 1))

    return score


def bucket(distance: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """T5's formula; `distance` is the position of the query less that of the key."""
    result = 0
    if bidirectional:
        num_buckets //= 2
        if distance < 0:
            result = num_buckets
        distance = abs(distance)
    else:
        distance = max(distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return result + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    # A float logarithm falls short of a power by some 1e-16.
    large = exact + math.floor(share * (num_buckets - exact) + 1e-9)
    return result + min(large, num_buckets - 1)


def relative_buckets(
    table: Array, num_buckets: int, max_distance: int, bidirectional: bool
) -> PairScore:
    return lambda q, k, n, i, j: float(
        table[n, bucket(i - j, num_buckets, max_distance, bidirectional)]
    )


def time_buckets(table: Array, step: float) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        bucket = int(np.log(max(abs(i - j), 1)) / step)
        return table[n, min(bucket, table.shape[1] - 1)]

    return score


def alibi(slopes: Sequence[float]) -> PairScore:
    return lambda q, k, n, i, j: -slopes[n] * abs(i - j)


def turned(x: Array, position: int, base: float, interleaved: bool) -> Array:
    """The vector times the block diagonal matrix of rotations."""
    size = len(x)
    half = size // 2
    matrix = np.zeros((size, size))
    for m in range(half):
        angle = position * base ** (-2 * m / size)
        first, second = (2 * m, 2 * m + 1) if interleaved else (m, m + half)
        matrix[first, first] = matrix[second, second] = math.cos(angle)
        matrix[first, second], matrix[second, first] = -math.sin(angle), math.sin(angle)
    return matrix @ x


def rotary(inner: PairScore, base: float, interleaved: bool) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        q, k = turned(q, i, base, interleaved), turned(k, j, base, interleaved)
        return inner(q, k, n, i, j)

    return score


def shared_dot(scale: bool, self_penalty: float) -> PairScore:
    def score(q: Array, k: Array, n: int, i: int, j: int) -> float:
        logit = q @ k / np.linalg.norm(k) / (math.sqrt(len(k)) if scale else 1)
        return float(logit + (self_penalty if i == j else 0))

    return score


def total(*parts: PairScore) -> PairScore:
    return lambda q, k, n, i, j: sum(part(q, k, n, i, j) for part in parts)


def mixture(proportions: Array, parts: Sequence[PairScore]) -> PairScore:
    shares = np.exp(proportions) / np.exp(proportions).sum()
    return lambda q, k, n, i, j: sum(
        share * part(q, k, n, i, j) for share, part in zip(shares, parts, strict=True)
    )
