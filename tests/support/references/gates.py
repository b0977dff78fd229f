"""Hard-Concrete gates and the three disagreements, one number at a time."""

from __future__ import annotations

import numpy as np

from tests.support.reference import Array


def hard_concrete(
    u: Array, log_alpha: Array, temperature: float, stretch: tuple[float, float]
) -> Array:
    """A random gate for each u."""
    s = 1 / (1 + np.exp(-(np.log(u) - np.log(1 - u) + log_alpha) / temperature))
    return np.minimum(1, np.maximum(0, s * (stretch[1] - stretch[0]) + stretch[0]))


def mean_cosine(x: Array, mask: Array) -> float:
    """(B, T, N, V), (B, T): over the tokens, and over all pairs of heads, i = j too."""
    heads, cosines = x.shape[2], []
    for b, t in np.argwhere(mask):
        total = 0.0
        for i, j in np.ndindex(heads, heads):
            norms = np.linalg.norm(x[b, t, i]) * np.linalg.norm(x[b, t, j])
            total += x[b, t, i] @ x[b, t, j] / norms if norms else 0.0
        cosines.append(total / heads**2)
    return float(np.mean(cosines)) if cosines else 0.0


def mean_overlap(weights: Array, mask: Array) -> float:
    """(B, N, T, S), (B, T): over the queries, and over all pairs of heads, i = j too."""
    heads, overlaps = weights.shape[1], []
    for b, t in np.argwhere(mask):
        total = 0.0
        for i, j in np.ndindex(heads, heads):
            total += (weights[b, i, t] * weights[b, j, t]).sum()
        overlaps.append(total / heads**2)
    return float(np.mean(overlaps)) if overlaps else 0.0
