"""Metrics that take the scores as probabilities: logloss and calibration."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import Floats, check_probabilities, undefined

# Far below any rate worth predicting, and still 1 - clip < 1 in float32.
LOGLOSS_CLIP = 1e-7


class CalibrationCurve(NamedTuple):
    """Per bin of rising scores: mean score, share of positives, rows."""

    predicted: Floats
    observed: Floats
    counts: NDArray[np.int64]


def logloss(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean negative log likelihood of the labels under the scores as probabilities.

    `logloss = -mean(y * log(p) + (1 - y) * log(1 - p))`, p clipped to [1e-7, 1 - 1e-7].

    Example:
        >>> round(logloss([1, 0], [0.5, 0.5]), 4)
        0.6931
    """
    labels, scores = check_probabilities(labels, scores)
    if not labels.size:
        return undefined("logloss", "there are no rows")
    of_label = np.where(labels, scores, 1 - scores)
    np.clip(of_label, LOGLOSS_CLIP, 1 - LOGLOSS_CLIP, out=of_label)
    return float(-np.mean(np.log(of_label, out=of_label)))


def calibration(labels: ArrayLike, scores: ArrayLike) -> float:
    """Sum of the predicted probabilities over the number of positives; 1 is perfect.

    Example:
        >>> calibration([1, 0, 0, 1], [0.25, 0.25, 0.25, 0.25])
        0.5
    """
    labels, scores = check_probabilities(labels, scores)
    if not labels.any():
        return undefined("calibration", "`labels` holds no positives")
    return float(scores.sum() / np.count_nonzero(labels))


def calibration_curve(labels: ArrayLike, scores: ArrayLike, bins: int = 10) -> CalibrationCurve:
    """Predicted against observed rate in `bins` quantile bins of the scores.

    Equal scores stay in one bin, so that there may be fewer and unequal bins.

    Example:
        >>> calibration_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2).observed
        array([0.5, 1. ])
    """
    if bins < 1:
        raise ValueError(f"`bins` must be a positive integer. Received: bins={bins}")
    labels, scores = check_probabilities(labels, scores)
    order = np.argsort(scores)
    labels, scores = labels[order], scores[order]
    edges = scores[np.arange(bins) * scores.size // bins] if scores.size else scores
    starts = np.unique(np.searchsorted(scores, edges))
    counts = np.diff(starts, append=scores.size)
    if not counts.size:
        return CalibrationCurve(np.zeros(0), np.zeros(0), counts)
    predicted, observed = (np.add.reduceat(values, starts) for values in (scores, labels))
    return CalibrationCurve(predicted / counts, observed / counts, counts)
