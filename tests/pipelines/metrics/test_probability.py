"""Logloss and calibration against scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve as sklearn_calibration_curve
from sklearn.metrics import log_loss

from pipelines.metrics import calibration, calibration_curve, logloss
from tests.pipelines.metrics.samples import ROWS, sample


def test_logloss_equals_scikit_learn():
    labels, scores, _ = sample()
    np.testing.assert_allclose(logloss(labels, scores), log_loss(labels, scores), rtol=1e-12)


def test_logloss_of_a_certain_mistake_is_finite():
    assert logloss([1, 0], [0.0, 1.0]) == pytest.approx(-np.log(1e-7), rel=1e-6)
    assert logloss([1, 0], np.array([1.0, 0.0], np.float32)) == pytest.approx(1e-7, rel=1e-6)


def test_calibration_is_predicted_over_observed():
    assert calibration([1, 0, 0, 1], [0.5, 0.25, 0.25, 0.5]) == 0.75
    rows = 2_000_003
    labels = np.zeros(rows)
    labels[:1009] = 1
    value = calibration(labels, np.full(rows, 0.1, np.float32))
    np.testing.assert_allclose(value, rows * np.float64(np.float32(0.1)) / 1009, rtol=1e-12)


def test_calibration_curve_equals_scikit_learn_on_distinct_scores():
    labels, scores, _ = sample(rows=1000)
    found = calibration_curve(labels, scores, bins=10)
    observed, predicted = sklearn_calibration_curve(labels, scores, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(found.predicted, predicted, rtol=1e-12)
    np.testing.assert_allclose(found.observed, observed, rtol=1e-12)
    np.testing.assert_array_equal(found.counts, np.full(10, 100))


@pytest.mark.parametrize("levels", [1, 2, 3, 13])
def test_calibration_curve_keeps_equal_scores_together(levels):
    labels, scores, _ = sample(levels)
    found = calibration_curve(labels, scores, bins=7)
    assert found.counts.sum() == ROWS
    assert found.counts.min() > 0
    assert found.counts.size <= min(levels, 7)
    np.testing.assert_allclose(found.predicted @ found.counts, scores.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.observed @ found.counts, labels.sum(), rtol=1e-12)
    if levels <= 3:
        np.testing.assert_allclose(found.predicted, np.unique(scores), rtol=1e-12)
