"""Weightings, one row of logits at a time; `allowed` has the shape of the logits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.reference import Array, softmax

Row = Callable[[Array], Array]


def by_row(weights_of: Row, logits: Array, allowed: Array) -> Array:
    """Applies a function to the logits that are allowed, row by row; zeros elsewhere."""
    weights = np.zeros(logits.shape)
    for index in np.ndindex(logits.shape[:-1]):
        chosen = allowed[index]
        if chosen.any():
            weights[index][chosen] = weights_of(logits[index][chosen])
    return weights


def sigmoid(bias: float) -> Row:
    return lambda row: 1 / (1 + np.exp(-(row + bias)))


def silu(length: int | None) -> Row:
    return lambda row: row / (1 + np.exp(-row)) / (len(row) if length is None else length)


def top_k(k: int) -> Row:
    def weights(row: Array) -> Array:
        result = np.zeros(len(row))
        largest = np.argsort(row)[::-1][:k]
        result[largest] = softmax(row[largest])
        return result

    return weights


def sparsemax(row: Array) -> Array:
    """The projection onto the simplex by sorting (Martins and Astudillo, algorithm 1)."""
    ordered = np.sort(row)[::-1]
    support = max(k for k in range(1, len(row) + 1) if 1 + k * ordered[k - 1] > ordered[:k].sum())
    threshold = (ordered[:support].sum() - 1) / support
    return np.maximum(row - threshold, 0)


def entmax(alpha: float) -> Row:
    """The threshold by a hundred halvings in float64."""

    def weights(row: Array) -> Array:
        x = (alpha - 1) * row
        low, high = x.max() - 1, x.max()
        for _ in range(100):
            middle = (low + high) / 2
            if (np.maximum(x - middle, 0) ** (1 / (alpha - 1))).sum() > 1:
                low = middle
            else:
                high = middle
        return np.maximum(x - low, 0) ** (1 / (alpha - 1))

    return weights


def talking_heads(
    row: Row, logits: Array, allowed: Array, logits_kernel: Array, weights_kernel: Array
) -> Array:
    """`sum_n kernel[n, m] * x[n]`, one head m after another, before and after the weights."""
    heads = logits.shape[1]
    mixed = np.zeros(logits.shape)
    for n, m in np.ndindex(heads, heads):
        mixed[:, m] += logits_kernel[n, m] * np.where(allowed[:, n], logits[:, n], 0)
    weights = by_row(row, mixed, allowed)
    result = np.zeros(logits.shape)
    for n, m in np.ndindex(heads, heads):
        result[:, m] += weights_kernel[n, m] * weights[:, n]
    return np.where(allowed, result, 0)


def attention_sink(logits: Array, allowed: Array, sink: Array) -> Array:
    """A softmax over one more key, of which the weight is dropped, one head after another."""
    weights = np.zeros(logits.shape)
    for n, logit in enumerate(sink):
        row: Row = lambda keys, logit=logit: softmax([*keys, logit])[:-1]  # noqa: E731
        weights[:, n] = by_row(row, logits[:, n], allowed[:, n])
    return weights


def gaussian(
    row: Row,
    logits: Array,
    allowed: Array,
    query: Array,
    kernel: Array,
    vector: Array,
    width: float,
) -> Array:
    """Luong's local-p: softmax over the keys of the window, times the bell."""
    bell = np.zeros(logits.shape)
    for b, n, t in np.ndindex(logits.shape[:-1]):
        keys = [s for s in range(logits.shape[-1]) if allowed[b, n, t, s]]
        hidden = np.tanh(query[b, t, n] @ kernel[n])
        center = len(keys) / (1 + np.exp(-hidden @ vector[n].ravel()))
        for position, s in enumerate(keys):
            if center - width <= position <= center + width:
                bell[b, n, t, s] = np.exp(-((position - center) ** 2) / (2 * (width / 2) ** 2))
    return by_row(row, logits, bell > 0) * bell
