"""Distances between two distributions over the same bins."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

Status = Literal["stable", "watch", "shifted", "few rows"]
WATCH, SHIFTED = 0.1, 0.25  # customary limits of the index
_Z = 3.0902  # the normal quantile of 0.999


def psi(reference: np.ndarray, served: np.ndarray) -> float:
    """The population stability index, `sum((q - p) * log(q / p))`.

    Half a count is added to every bin, so that an empty one does not make it infinite.

    Args:
        reference: Counts, `(bins,)`.
        served: Counts, `(bins,)`.

    >>> round(psi(np.array([500, 500]), np.array([600, 400])), 3)
    0.04
    """
    p, q = ((c + 0.5) / (c.sum() + 0.5 * len(c)) for c in (reference, served))
    return float(np.sum((q - p) * np.log(q / p)))


def jensen_shannon(reference: np.ndarray, served: np.ndarray) -> float:
    """The Jensen-Shannon divergence in bits: 0 for equal shares, 1 without a common bin."""
    if not (reference.sum() and served.sum()):
        return 0.0
    p, q = reference / reference.sum(), served / served.sum()
    middle = (p + q) / 2

    def relative(shares: np.ndarray) -> float:
        some = shares > 0
        return float(np.sum(shares[some] * np.log2(shares[some] / middle[some])))

    return max(0.0, (relative(p) + relative(q)) / 2)


def chance(bins: int, reference: int, served: int) -> float:
    """The index that two samples of one distribution exceed with probability 0.001.

    The index over `1/n + 1/m` is distributed as chi-squared with `bins - 1` degrees of freedom,
    whose quantile is Wilson and Hilferty's.

    Args:
        bins: Number of bins.
        reference: Independent values of the reference.
        served: Independent values of the log.
    """
    if not (reference and served):
        return math.inf
    freedom = max(bins - 1, 1)
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + _Z * math.sqrt(spread)) ** 3 * (1 / reference + 1 / served)


def judge(index: float, by_chance: float) -> Status:
    """The status of an index, given its level by chance."""
    if index <= WATCH:
        return "stable"
    if index <= by_chance:
        return "few rows"
    return "shifted" if index > SHIFTED else "watch"
