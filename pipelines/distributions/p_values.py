"""P-values: the probability of a difference as large between two samples of one distribution.

SciPy has these functions, but its presence slows every start of TensorFlow.
"""

from __future__ import annotations

import math

import numpy as np

from pipelines.distributions.value_counts import Counts

_EXPECTED = 5  # rows of a bin; below, chi-squared is no longer the distribution


def kolmogorov_smirnov(first: Counts, second: Counts) -> float:
    """The p-value of the largest distance of two cumulative distributions, `D`.

    `p = 2 * sum_(k >= 1) (-1)^(k-1) * exp(-2 k^2 x^2)`, `x = (s + 0.12 + 0.11 / s) * D`,
    `s^2 = n m / (n + m)`. Equal values make it too large, which errs on the safe side.

    Source: Stephens, "Use of the Kolmogorov-Smirnov, Cramer-von Mises and related statistics
    without extensive tables", JRSS B 1970.

    >>> round(kolmogorov_smirnov(Counts.of(np.arange(100)), Counts.of(np.arange(20, 120))), 3)
    0.032
    """
    if not (first.total and second.total):
        return 1.0
    keys = np.union1d(first.keys, second.keys)
    distance = np.abs(_below(first, keys) - _below(second, keys)).max()
    size = math.sqrt(first.total * second.total / (first.total + second.total))
    x = (size + 0.12 + 0.11 / size) * float(distance)
    if x < 0.2:  # the sum converges slowly, to 1
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * sum(terms)))


def _below(part: Counts, keys: np.ndarray) -> np.ndarray:
    """The share of values up to each key."""
    ends = np.concatenate([[0], np.cumsum(part.counts)])
    return ends[np.searchsorted(part.keys, keys, side="right")] / part.total


def chi_squared(first: np.ndarray, second: np.ndarray) -> float:
    """The p-value of two rows of counts over the same bins; with two bins, that of a z test.

    `x^2 = sum_(bins, rows) (count - expected)^2 / expected`; bins in which fewer than 5 rows are
    expected count as one.

    >>> round(chi_squared(np.array([50, 50]), np.array([70, 30])), 4)
    0.0039
    """
    table = np.stack([first, second]).astype(np.float64)
    if not table.sum(axis=1).all():
        return 1.0
    share = table.sum(axis=1, keepdims=True) / table.sum()
    rare = (share * table.sum(axis=0)).min(axis=0) < _EXPECTED
    if rare.any():
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    expected = share * table.sum(axis=0)
    return exceeded(float(((table - expected) ** 2 / expected).sum()), table.shape[1] - 1)


def exceeded(x: float, freedom: int) -> float:
    """The probability that chi-squared of some degrees of freedom exceeds x.

    With half of x, h, and k degrees: `exp(-h) * sum_(i < k / 2) h^i / i!` for even k, and
    `erfc(sqrt(h)) + exp(-h) * sum_(i < (k - 1) / 2) h^(i + 1/2) / Gamma(i + 3/2)` for odd k.

    >>> round(exceeded(3.841459, 1), 4), round(exceeded(18.307038, 10), 4)
    (0.05, 0.05)
    """
    if freedom < 1 or x <= 0:
        return 1.0
    half, odd = x / 2, freedom % 2
    powers = (i + odd / 2 for i in range(freedom // 2))
    terms = (math.exp(p * math.log(half) - half - math.lgamma(p + 1)) for p in powers)
    return min(1.0, (math.erfc(math.sqrt(half)) if odd else 0.0) + math.fsum(terms))
