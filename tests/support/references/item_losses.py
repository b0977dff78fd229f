"""Losses over a catalogue, one position and one item at a time, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
RESERVED = 2


def softplus(x: float) -> float:
    return float(np.logaddexp(0, x))


def log_sum_exp(values: Sequence[float]) -> float:
    return float(np.logaddexp.reduce(np.asarray(values, "float64")))


def score(state: Array, vectors: Array, offsets: Array | None, item: int) -> float:
    return float(state @ vectors[item]) + (0.0 if offsets is None else float(offsets[item]))


def softmax(state: Array, vectors: Array, offsets: Array | None, target: int) -> float:
    """One position, over all items."""
    every = [score(state, vectors, offsets, i) for i in range(RESERVED, len(vectors))]
    return log_sum_exp(every) - every[target - RESERVED]


def sampled_softmax(target: float, others: Array, expected: Array) -> float:
    """From scores; `expected` is how often each of the others is expected among the draws."""
    corrected = [s - np.log(c) for s, c in zip(others, expected, strict=True)]
    return log_sum_exp([target, *corrected]) - target


def uncorrected_softmax(target: float, others: Array, expected: Array) -> float:
    return sampled_softmax(target, others, np.ones(len(others)))


def binary_cross_entropy(target: float, others: Array, expected: Array, beta: float = 1.0) -> float:
    return beta * softplus(-target) + sum(map(softplus, others))


def bpr(target: float, others: Array, expected: Array) -> float:
    return sum(softplus(s - target) for s in others) / max(len(others), 1)
