"""Logloss and calibration against scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve as sklearn_calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from pipelines.metrics import (
    calibration,
    calibration_curve,
    calibration_error,
    logloss,
    normalised_entropy,
    recalibrated_entropy,
)
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


def test_normalised_entropy_is_one_for_the_mean_label():
    labels, scores, _ = sample()
    assert normalised_entropy(labels, np.full(ROWS, labels.mean())) == pytest.approx(1)
    entropy = log_loss(labels, np.full(ROWS, labels.mean()))
    expected = log_loss(labels, scores) / entropy
    assert normalised_entropy(labels, scores) == pytest.approx(expected, rel=1e-12)


def test_recalibrated_entropy_is_that_of_a_logistic_regression():
    labels, scores, _ = sample()
    wrong = scores**2 / 3
    x = np.log(wrong) - np.log1p(-wrong)
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(x[:, None], labels)
    expected = normalised_entropy(labels, fitted.predict_proba(x[:, None])[:, 1])
    assert recalibrated_entropy(labels, wrong) == pytest.approx(expected, rel=1e-8)
    moved = 1 / (1 + np.exp(-(0.3 * x - 2)))
    assert recalibrated_entropy(labels, moved) == pytest.approx(expected, rel=1e-8)
    assert recalibrated_entropy([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]) < 1e-3  # separable
    assert recalibrated_entropy(labels, np.full(ROWS, 0.2)) == pytest.approx(1)


def test_calibration_error_is_that_of_the_probabilities():
    rng = np.random.default_rng(0)
    truth = rng.beta(1, 4, size=(300, 2000))
    labels = rng.random(truth.shape) < truth
    # Squares, as their mean has no bias; the bins alone would give about 20 times .25 / 2000.
    right = [calibration_error(y, p) ** 2 for y, p in zip(labels, truth, strict=True)]
    off = [calibration_error(y, p * 0.8) ** 2 for y, p in zip(labels, truth, strict=True)]
    assert np.mean(right) < 5e-4
    assert np.mean(off) == pytest.approx(0.04 * (truth**2).mean(), rel=0.15)
