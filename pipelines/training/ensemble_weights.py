"""The weights of an ensemble's members, by the logloss of validation rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]
FOLDS = 10


class MemberWeights(NamedTuple):
    """The weights of one task.

    Attributes:
        weights: One for each member, none negative, with the sum 1.
        gain: How much less the logloss of left-out rows is than with equal weights; None where
            there is nothing to choose.
        error: Standard error of the gain.
        fitted: Whether they are fitted; else they are equal.
    """

    weights: list[float]
    gain: float | None = None
    error: float | None = None
    fitted: bool = False


def equal_weights(members: int) -> MemberWeights:
    """Equal weights."""
    return MemberWeights([1 / members] * members)


def fit_weights(labels: NDArray[Any], logits: Floats) -> MemberWeights:
    """Fits non-negative weights, whose mean of the logits has the least logloss when calibrated.

    They are those of `c >= 0` and b in `p = sigmoid(c . z + b)`, divided by their sum, which is
    convex; the slope and the offset of the calibration take the rest. As for the calibration, a
    ridge of one pseudo-row pulls `c` to equal weights. Where the rows are few or the members alike,
    fitted weights are noise: they are kept only if, fitted on nine tenths of the rows and tried on
    the tenth, they are better than equal ones by more than a standard error. The tenths are
    consecutive rows, so that rows of one request, and of one hour, are mostly together.

    Args:
        labels: 0, 1, or NaN for unknown `(rows,)`.
        logits: Calibrated logits `(members, rows)`.

    Source: Breiman, "Stacked Regressions", Machine Learning 24, 1996.
    """
    known = ~np.isnan(labels)
    y, z = labels[known].astype("float64"), logits[:, known].astype("float64")
    if len(z) == 1 or min(y.sum(), len(y) - y.sum()) < FOLDS:
        return equal_weights(len(z))
    mean = z.mean(axis=0, keepdims=True)
    gains = [
        _loss(_fitted(y[rest], mean[:, rest]), y[fold], mean[:, fold])
        - _loss(_fitted(y[rest], z[:, rest]), y[fold], z[:, fold])
        for rest, fold in _folds(len(y))
    ]
    gain, error = float(np.mean(gains)), float(np.std(gains, ddof=1) / np.sqrt(FOLDS))
    factors = _fitted(y, z)[:-1]
    if not gain > error or not factors.sum():
        return equal_weights(len(z))._replace(gain=gain, error=error)
    return MemberWeights((factors / factors.sum()).tolist(), gain, error, True)


def _folds(rows: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """The other rows and the rows of each fold."""
    of_row = np.arange(rows) * FOLDS // rows
    for fold in range(FOLDS):
        yield of_row != fold, of_row == fold


def _fitted(y: Floats, z: Floats) -> Floats:
    """The factors of the logits, then the offset."""
    start = np.append(np.full(len(z), 1 / len(z)), 0.0)

    def loss(x: Floats) -> tuple[float, Floats]:
        away = x - start
        logits = x[:-1] @ z + x[-1]
        error = 1 / (1 + np.exp(-logits)) - y
        total = np.sum(np.logaddexp(0, logits) - y * logits) + away @ away / 2
        return total / len(y), (np.append(z @ error, error.sum()) + away) / len(y)

    bounds = [(0, None)] * len(z) + [(None, None)]
    found: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found


def _loss(x: Floats, y: Floats, z: Floats) -> float:
    logits = x[:-1] @ z + x[-1]
    return float(np.mean(np.logaddexp(0, logits) - y * logits))
