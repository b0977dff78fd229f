"""Metrics that take the scores as probabilities: logloss, entropy and calibration."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.metric_inputs import ONE_CLASS, Floats, check_probabilities, undefined
from pipelines.metrics.ranked import LabelCounts

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
    return logloss_of(_counts(labels, scores))


def logloss_of(counts: LabelCounts) -> float:
    """`logloss` of counted rows."""
    rows = sum(counts.totals)
    return counts.total(_losses) / rows if rows else undefined("logloss", "there are no rows")


def _losses(block: LabelCounts) -> Floats:
    """Sums of the logloss of the rows of each score."""
    won, lost = (row_losses(np.full(block.scores.size, y), block.scores) for y in (1, 0))
    return block.positive * won + block.negative * lost


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
    return normalised_entropy_of(_counts(labels, scores))


def normalised_entropy_of(counts: LabelCounts) -> float:
    """`normalised_entropy` of counted rows."""
    if not counts.both_classes:
        return undefined("normalised entropy", ONE_CLASS)
    return entropy_ratio(logloss_of(counts), _rate(counts))


def entropy_ratio(loss: float, rate: float) -> float:
    """`normalised_entropy` of a logloss and the share of positives."""
    return loss / rate_entropy(rate)


def _rate(counts: LabelCounts) -> float:
    return counts.totals[0] / sum(counts.totals)


def rate_entropy(rate: float) -> float:
    """The logloss of predicting the share of positives for every row."""
    return -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate))


def recalibrated_entropy(labels: ArrayLike, scores: ArrayLike) -> float:
    """Normalised entropy of `sigmoid(a + b * logit(score))` with the best a and b for these rows.

    Its distance to `normalised_entropy` is what a wrong level and spread of the probabilities
    costs; the order of the rows costs the rest.

    Source: as `normalised_entropy`; the correction is Platt's, 1999.

    Example:
        >>> round(recalibrated_entropy([1, 0, 1, 0], [0.02, 0.01, 0.01, 0.02]), 4)
        1.0
    """
    return recalibrated_entropy_of(_counts(labels, scores))


def recalibrated_entropy_of(counts: LabelCounts) -> float:
    """`recalibrated_entropy` of counted rows."""
    if not counts.both_classes:
        return normalised_entropy_of(counts)
    a, b = _platt(counts)

    def recalibrated(block: LabelCounts) -> Floats:
        scores = _sigmoid(a + b * _logits(block))
        return _losses(LabelCounts(scores, block.positive, block.negative))

    return entropy_ratio(counts.total(recalibrated) / sum(counts.totals), _rate(counts))


def _platt(counts: LabelCounts) -> tuple[float, float]:
    """`a` and `b` of the logistic regression of the labels on the logits, by Newton's method."""
    total = sum(counts.totals)
    mean = counts.total(lambda block: block.rows * _logits(block)) / total
    scale = (counts.total(lambda block: block.rows * (_logits(block) - mean) ** 2) / total) ** 0.5
    a, b = logit(_rate(counts)), 0.0  # of (x - mean) / scale
    for _ in range(_NEWTON_STEPS if scale > _CONVERGED else 0):
        sums = [_newton_sums(block, mean, scale, a, b) for block in counts.blocks()]
        w, wx, wxx, g, gx = map(math.fsum, zip(*sums, strict=True))
        size = w * wxx - wx * wx
        if size <= _SINGULAR * w * wxx:  # one score separates the classes
            break
        step = (wxx * g - wx * gx) / size, (w * gx - wx * g) / size
        a, b = a + step[0], b + step[1]
        if max(map(abs, step)) < _CONVERGED:
            break
    b /= scale or 1.0
    return a - b * mean, b


def _newton_sums(
    block: LabelCounts, mean: float, scale: float, a: float, b: float
) -> tuple[float, ...]:
    x = (_logits(block) - mean) / scale
    rows, p = block.rows, _sigmoid(a + b * x)
    weight, rest = rows * p * (1 - p), block.positive - rows * p
    sums = (weight, weight * x, weight * x * x, rest, rest * x)
    return tuple(float(values.sum()) for values in sums)


def _logits(block: LabelCounts) -> Floats:
    logits: Floats = logit(np.clip(block.scores.astype(float), LOGLOSS_CLIP, 1 - LOGLOSS_CLIP))
    return logits


def logit(p: Any) -> Any:
    """`log(p / (1 - p))` of probabilities."""
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
    return calibration_error_of(_counts(labels, scores), bins)


def calibration_error_of(counted: LabelCounts, bins: int = 20) -> float:
    """`calibration_error` of counted rows."""
    predicted, observed, counts = calibration_curve_of(counted, bins)
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
    return calibration_of(_counts(labels, scores))


def calibration_of(counts: LabelCounts) -> float:
    """`calibration` of counted rows."""
    if not counts.totals[0]:
        return undefined("calibration", "`labels` holds no positives")
    return counts.total(lambda block: block.rows * block.scores.astype(float)) / counts.totals[0]


def calibration_curve(labels: ArrayLike, scores: ArrayLike, bins: int = 10) -> CalibrationCurve:
    """Predicted against observed rate in `bins` quantile bins of the scores.

    Equal scores stay in one bin, so that there may be fewer and unequal bins.

    Example:
        >>> calibration_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2).observed
        array([0.5, 1. ])
    """
    return calibration_curve_of(_counts(labels, scores), bins)


def calibration_curve_of(counted: LabelCounts, bins: int = 10) -> CalibrationCurve:
    """`calibration_curve` of counted rows."""
    if bins < 1:
        raise ValueError(f"`bins` must be a positive integer. Received: bins={bins}")
    if not counted.scores.size:
        return CalibrationCurve(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    ends = np.cumsum(counted.rows)
    first_rows = np.arange(bins) * ends[-1] // bins
    starts = np.unique(np.searchsorted(ends, first_rows, side="right"))
    sums = (counted.rows * counted.scores.astype(np.float64), counted.positive, counted.rows)
    predicted, observed, counts = (np.add.reduceat(values, starts) for values in sums)
    return CalibrationCurve(predicted / counts, observed / counts, counts)


def _counts(labels: ArrayLike, scores: ArrayLike) -> LabelCounts:
    return LabelCounts.of(*check_probabilities(labels, scores))
