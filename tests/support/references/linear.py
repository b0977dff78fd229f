"""Linear attention as what it stands for: similarities of pairs, and states of a recurrence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Features = Callable[[Array], Array]


def elu_plus_one(x: Array) -> Array:
    return np.array([c + 1 if c > 0 else np.exp(c) for c in x])


def taylor(x: Array) -> Array:
    return np.concatenate([[1.0], x / np.linalg.norm(x)])


def favor(x: Array, projection: Array) -> Array:
    """Each random vector is a column of the projection."""
    x = x / len(x) ** 0.25
    return np.array([np.exp(w @ x - x @ x / 2) for w in projection.T]) / projection.shape[1] ** 0.5


def favor_relu(x: Array, projection: Array) -> Array:
    count = projection.shape[1]
    return np.array([max(w @ x / np.sqrt(count), 0) + 1e-3 for w in projection.T])


def fourier(x: Array, projection: Array, sigma: float) -> Array:
    x = x / np.linalg.norm(x) / sigma
    waves = [np.sin(w @ x) for w in projection.T] + [np.cos(w @ x) for w in projection.T]
    return np.array(waves) / np.sqrt(projection.shape[1])


def kernel_attention(
    query: Array, key: Array, value: Array, features: Features, allowed: Array, floor: float = 0.0
) -> Array:
    """`sum_s sim(q, k_s) v_s / sum_s sim(q, k_s)` over the allowed (B, T, S), pair by pair."""
    batch, queries, heads, _ = query.shape
    output = np.zeros((batch, queries, heads, value.shape[-1]))
    for b, t, n in np.ndindex(batch, queries, heads):
        total = 0.0
        for s in range(key.shape[1]):
            if allowed[b, t, s]:
                similarity = features(query[b, t, n]) @ features(key[b, s, n])
                output[b, t, n] += similarity * value[b, s, n]
                total += similarity
        if allowed[b, t].any():
            output[b, t, n] /= max(total, floor)
    return output


def efficient_attention(query: Array, key: Array, value: Array, allowed: Array) -> Array:
    """`rho_q(q) . (rho_k(K)^T V)` with a softmax over channels and one over allowed positions."""
    batch, queries, heads, size = query.shape
    output = np.zeros((batch, queries, heads, value.shape[-1]))
    for b, t, n in np.ndindex(batch, queries, heads):
        chosen = np.flatnonzero(allowed[b, t])
        mixture = np.exp(query[b, t, n]) / np.exp(query[b, t, n]).sum()
        for channel in range(size):
            exponentials = np.array([np.exp(key[b, s, n, channel]) for s in chosen])
            for s, exponential in zip(chosen, exponentials, strict=True):
                weight = exponential / exponentials.sum()
                output[b, t, n] += mixture[channel] * weight * value[b, s, n]
    return output


def decayed_recurrence(
    query: Array,
    key: Array,
    value: Array,
    features: Features,
    share: Callable[[int, Array], Array],
    enters: bool,
    key_mask: Array,
) -> Array:
    """`S_t = g_t S_{t-1} + [1 - g_t] phi(k_t) v_t^T` and z_t alike, one event at a time.

    `share` is g_t of the head n and its key, a number or one of each feature; padding is left out.
    """
    batch, length, heads, _ = query.shape
    output = np.zeros(value.shape)
    for b, n in np.ndindex(batch, heads):
        state, total = 0.0, 0.0
        for t in range(length):
            if key_mask[b, t]:
                left = share(n, key[b, t, n])
                entering = features(key[b, t, n]) * (1 - left if enters else 1)
                state = np.expand_dims(left, -1) * state + np.outer(entering, value[b, t, n])
                total = left * total + entering
            of_query = features(query[b, t, n])
            if np.any(total):
                output[b, t, n] = of_query @ state / (of_query @ total)
    return output


def recurrence(query: Array, key: Array, value: Array, features: Features) -> Array:
    """`S_t = S_{t-1} + phi(k_t) v_t^T`, `z_t = z_{t-1} + phi(k_t)`, one event at a time."""
    batch, length, heads, _ = query.shape
    output = np.zeros(value.shape)
    for b, n in np.ndindex(batch, heads):
        state, total = 0.0, 0.0
        for t in range(length):
            state = state + np.outer(features(key[b, t, n]), value[b, t, n])
            total = total + features(key[b, t, n])
            of_query = features(query[b, t, n])
            output[b, t, n] = of_query @ state / (of_query @ total)
    return output
