"""The observed rate as a smooth curve of the predicted one, and its distance to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pipelines.metrics.metric_inputs import Floats, undefined
from pipelines.metrics.probability import CalibrationCurve, calibration_curve

SPAN = 0.75
POINTS = 400


class SmoothCalibration(NamedTuple):
    """The smooth observed rate at predicted ones, and how far they are apart.

    Attributes:
        ici: Mean of `|predicted - smooth|` over the rows.
        e50, e90: Its median and the quantile that nine of ten rows are below.
        predicted, smooth: The curve, with at most 400 points of rising predicted rate.
    """

    ici: float
    e50: float
    e90: float
    predicted: Floats
    smooth: Floats


def smooth_calibration(labels: ArrayLike, scores: ArrayLike) -> SmoothCalibration:
    """The integrated calibration index: the mean distance of predicted and smooth observed rate.

    `ici = mean_i |p_i - s(p_i)|`, with the local quadratic regression s of the labels on the
    predicted p: at each point the nearest 75 % of the rows, at distance d of at most h, with
    weights `(1 - (d / h)^3)^3`. Unlike bins it has no edges to choose. It is above 0 for right
    probabilities too, by less the more rows there are; `calibration_error` has no such bias.

    More than 400 rows are taken as 400 groups of equally many rows of rising score.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: Probability of 1 per row, shape (rows,).

    Returns:
        A `SmoothCalibration`; nan with a warning and no points without rows.

    Raises:
        ValueError: As for `logloss`.

    Source: Austin and Steyerberg, "The Integrated Calibration Index (ICI) and related metrics",
    Statistics in Medicine 2019; Cleveland, JASA 1979.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(0.1, 0.6, 50_000)
        >>> y = rng.random(50_000) < p + 0.1
        >>> found = smooth_calibration(y, p)
        >>> print(f"{found.ici:.2f} {found.e50:.2f} {found.e90:.2f}")
        0.10 0.10 0.10
    """
    return smooth_of(calibration_curve(labels, scores, POINTS))


def smooth_of(curve: CalibrationCurve) -> SmoothCalibration:
    """`smooth_calibration` of at most `POINTS` groups of rows."""
    predicted, observed, counts = curve
    if not counts.size:
        nothing = undefined("integrated calibration index", "there are no rows")
        return SmoothCalibration(nothing, nothing, nothing, predicted, observed)
    smooth = _local_quadratic(predicted, observed, counts.astype(np.float64))
    apart = np.abs(predicted - smooth)
    order = np.argsort(apart)
    upto = np.cumsum(counts[order]) / counts.sum()
    e50, e90 = (float(apart[order][np.searchsorted(upto, share)]) for share in (0.5, 0.9))
    return SmoothCalibration(float(np.average(apart, weights=counts)), e50, e90, predicted, smooth)


def _local_quadratic(x: Floats, y: Floats, counts: Floats) -> Floats:
    """The value at each x of the quadratic that fits the nearest points best."""
    distance = np.abs(x[:, None] - x)
    order = np.argsort(distance, axis=1)
    upto = np.cumsum(counts[order], axis=1)
    last = (upto < SPAN * counts.sum()).sum(axis=1)
    width = np.take_along_axis(distance, order, axis=1)[np.arange(x.size), last][:, None]
    width = np.where(width > 0, width, 1.0)
    scaled = (x - x[:, None]) / width
    weights = counts * np.clip(1 - np.abs(scaled) ** 3, 0, None) ** 3
    powers = np.stack([np.ones_like(scaled), scaled, scaled**2], axis=-1)
    left = np.einsum("ij,ija,ijb->iab", weights, powers, powers, optimize=True)
    right = np.einsum("ij,ija,j->ia", weights, powers, y, optimize=True)
    # Equal scores leave fewer points than a quadratic needs: then the flattest one that fits.
    return np.einsum("ab,abc,ac->a", [[1.0, 0.0, 0.0]] * x.size, np.linalg.pinv(left, 1e-9), right)
