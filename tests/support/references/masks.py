"""Batch-time masks, pair by pair: t attends s."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def matrices(rule: Callable[[int, int, int], bool], batch: int, rows: int, columns: int) -> Array:
    allowed = np.zeros((batch, rows, columns), bool)
    for b, t, s in np.ndindex(allowed.shape):
        allowed[b, t, s] = rule(b, t, s)
    return allowed


def padding(lengths: Array, size: int) -> Array:
    return np.array([[s < length for s in range(size)] for length in lengths])


def prefix(lengths: Array, size: int) -> Array:
    return matrices(lambda b, t, s: s < lengths[b] or s <= t, len(lengths), size, size)


def sequence_to_sequence(segments: Array) -> Array:
    def rule(b: int, t: int, s: int) -> bool:
        return sum(segments[b, : s + 1]) <= sum(segments[b, : t + 1])

    batch, size = segments.shape
    return matrices(rule, batch, size, size)


def permutation(orders: Array) -> tuple[Array, Array]:
    """From the orders themselves: which position comes first, second, and so on."""
    batch, size = orders.shape
    content, query = np.zeros((2, batch, size, size), bool)
    for b, order in enumerate(orders):
        for step, position in enumerate(order):
            query[b, position, order[:step]] = True
            content[b, position, order[: step + 1]] = True
    return content, query


def candidates(history_mask: Array, count: int, causal: bool) -> Array:
    batch, events = history_mask.shape

    def rule(b: int, t: int, s: int) -> bool:
        if s >= events:
            return s == t
        return bool(history_mask[b, s]) and (not causal or s <= t)

    return matrices(rule, batch, events + count, events + count)


def time_gaps(query_times: Array, key_times: Array, maximum: float, minimum: float) -> Array:
    def rule(b: int, t: int, s: int) -> bool:
        return minimum <= query_times[b, t] - key_times[b, s] <= maximum

    return matrices(rule, *query_times.shape, key_times.shape[1])


def recency(key_mask: Array) -> Array:
    return np.array([[-sum(row[s:]) for s in range(len(row))] for row in key_mask.astype(int)])
