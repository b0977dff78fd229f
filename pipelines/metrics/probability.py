"""Metrics that take the scores as probabilities: logloss, entropy and calibration."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import ONE_CLASS, Floats, check_probabilities, undefined

# Far below any rate worth predicting, and still 1 - clip < 1 in float32.
LOGLOSS_CLIP = 1e-7
_NEWTON_STEPS, _CONVERGED, _SINGULAR = 50, 1e-10, 1e-12


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
    losses = row_losses(labels, scores)
    return float(np.mean(losses)) if losses.size else undefined("logloss", "there are no rows")


def row_losses(labels: ArrayLike, scores: ArrayLike) -> Floats:
    """The logloss of each row."""
    labels, scores = check_probabilities(labels, scores)
    of_label = np.where(labels, scores, 1 - scores)
    np.clip(of_label, LOGLOSS_CLIP, 1 - LOGLOSS_CLIP, out=of_label)
    return -np.log(of_label, out=of_label)


def row_excess(labels: ArrayLike, scores: ArrayLike) -> Floats:
    """The logloss of each row beyond what its probability p expects; its mean is 0 if p is right.

    `loss + p * log(p) + (1 - p) * log(1 - p)`. Unlike logloss, it has one level for rare and for
    common labels, so that segments can be compared.
    """
    labels, scores = check_probabilities(labels, scores)
    p = np.clip(scores, LOGLOSS_CLIP, 1 - LOGLOSS_CLIP)
    return row_losses(labels, scores) + p * np.log(p) + (1 - p) * np.log1p(-p)


def normalised_entropy(labels: ArrayLike, scores: ArrayLike) -> float:
    """Logloss over the entropy of the share of positives in the same rows; 1 says nothing.

    `ne = logloss / -(r * log(r) + (1 - r) * log(1 - r))`, r the mean label.

    Source: He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014.

    Example:
        >>> round(normalised_entropy([1, 0, 0, 0], [0.7, 0.1, 0.2, 0.1]), 4)
        0.3515
    """
    labels, scores = check_probabilities(labels, scores)
    rate = labels.mean() if labels.size else 0.0
    if rate in (0.0, 1.0):
        return undefined("normalised entropy", ONE_CLASS)
    return logloss(labels, scores) / -float(rate * np.log(rate) + (1 - rate) * np.log1p(-rate))


def recalibrated_entropy(labels: ArrayLike, scores: ArrayLike) -> float:
    """Normalised entropy of `sigmoid(a + b * logit(score))` with the best a and b for these rows.

    Its distance to `normalised_entropy` is what a wrong level and spread of the probabilities
    costs; the order of the rows costs the rest.

    Source: as `normalised_entropy`; the correction is Platt's, 1999.

    Example:
        >>> round(recalibrated_entropy([1, 0, 1, 0], [0.02, 0.01, 0.01, 0.02]), 4)
        1.0
    """
    labels, scores = check_probabilities(labels, scores)
    if labels.size and 0 < labels.mean() < 1:
        clipped = np.clip(scores, LOGLOSS_CLIP, 1 - LOGLOSS_CLIP)
        scores = _sigmoid(_platt(labels, _logit(clipped)))
    return normalised_entropy(labels, scores)


def _platt(labels: Floats, x: Floats) -> Floats:
    """`a + b x` of the logistic regression of labels on x, by Newton's method."""
    scale = x.std()
    if scale == 0:
        return np.full_like(x, _logit(labels.mean()))
    x = (x - x.mean()) / scale
    a, b = _logit(labels.mean()), 0.0
    for _ in range(_NEWTON_STEPS):
        p = _sigmoid(a + b * x)
        weight, rest = p * (1 - p), labels - p
        w, wx, wxx = weight.sum(), weight @ x, weight @ (x * x)
        g, gx = rest.sum(), rest @ x
        size = w * wxx - wx * wx
        if size <= _SINGULAR * w * wxx:  # one score separates the classes
            break
        step = (wxx * g - wx * gx) / size, (w * gx - wx * g) / size
        a, b = a + step[0], b + step[1]
        if max(map(abs, step)) < _CONVERGED:
            break
    return a + b * x


def _logit(p: Any) -> Any:
    return np.log(p) - np.log1p(-p)


def _sigmoid(x: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(x / 2)  # does not overflow


def calibration_error(labels: ArrayLike, scores: ArrayLike, bins: int = 20) -> float:
    """Distance of predicted and observed rate, over bins of equally many rows, without bias.

    `error^2 = sum_k n_k / n * ((p_k - o_k)^2 - o_k (1 - o_k) / (n_k - 1))`, at least 0, with mean
    score `p_k` and observed rate `o_k` of bin k. The last term is what `(p_k - o_k)^2` has by
    chance; a mean of `|p_k - o_k|`, the usual form, is above 0 for right probabilities too.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: Probability of 1 per row, shape (rows,).
        bins: Number of bins. More see finer errors and need more rows.

    Returns:
        A number in [0, 1], of the unit of the scores; nan with a warning without rows.

    Raises:
        ValueError: As for `logloss`, or `bins` is not positive.

    Source: Kumar et al., "Verified Uncertainty Calibration", NeurIPS 2019, arXiv 1909.10155.

    Example:
        >>> round(calibration_error([1, 0, 1, 1] * 100, [0.5, 0.5, 0.5, 0.5] * 100), 4)
        0.2491
    """
    predicted, observed, counts = calibration_curve(labels, scores, bins)
    if not counts.size:
        return undefined("calibration error", "there are no rows")
    by_chance = observed * (1 - observed) / np.maximum(counts - 1, 1)
    square = np.average((predicted - observed) ** 2 - by_chance, weights=counts)
    return float(np.sqrt(max(square, 0.0)))


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
