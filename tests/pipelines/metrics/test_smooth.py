"""The smooth calibration curve against a regression at each row."""

import doctest

import numpy as np
import pytest

from pipelines.metrics import UndefinedMetricWarning, smooth
from pipelines.metrics.smooth import smooth_calibration
from tests.pipelines.metrics.samples import sample


def loess(labels, scores):
    """The local quadratic of each row by numpy's least squares, with the nearest three quarters."""
    nearest = int(np.ceil(0.75 * scores.size))
    found = []
    for score in scores:
        distance = np.abs(scores - score)
        width = np.sort(distance)[nearest - 1]
        weights = np.clip(1 - (distance / width) ** 3, 0, None) ** 3
        fit = np.polynomial.Polynomial.fit(
            scores - score, labels, 2, w=np.sqrt(weights), domain=[-1, 1]
        )
        found.append(fit(0.0))
    return np.array(found)


def wrong(rows):
    """Labels whose rate is far from the scores, in a curve."""
    rng = np.random.default_rng(5)
    scores = rng.beta(1, 5, rows)
    return (rng.random(rows) < scores**1.5 + 0.1).astype(float), scores


def test_few_rows_equal_a_regression_at_each():
    labels, scores = wrong(397)
    found, expected = smooth_calibration(labels, scores), loess(labels, scores)
    order = np.argsort(scores)
    np.testing.assert_allclose(found.predicted, scores[order])
    np.testing.assert_allclose(found.smooth, expected[order], atol=1e-9)
    apart = np.abs(scores - expected)
    assert found.ici == pytest.approx(apart.mean())
    for value, share in ((found.e50, 0.5), (found.e90, 0.9)):
        assert value == pytest.approx(np.quantile(apart, share, method="inverted_cdf"))


def test_many_rows_are_close_to_it():
    labels, scores = wrong(3001)
    apart = np.abs(scores - loess(labels, scores))
    found = smooth_calibration(labels, scores)
    assert found.predicted.size == 400
    np.testing.assert_allclose(found.ici, apart.mean(), rtol=0.01)
    np.testing.assert_allclose(found.e90, np.quantile(apart, 0.9), rtol=0.03)


def test_right_probabilities_are_close_to_the_line():
    labels, scores, _ = sample(rows=200_000)
    assert smooth_calibration(labels, scores).ici < 0.003
    assert smooth_calibration(labels, scores / 2).ici == pytest.approx(0.25, abs=0.003)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_few_distinct_scores_have_their_own_rates(levels):
    labels, scores, _ = sample(levels, rows=5000)
    found = smooth_calibration(labels, scores)
    rates = [labels[scores == score].mean() for score in np.unique(scores)]
    np.testing.assert_allclose(found.smooth, rates, atol=1e-6)


def test_no_rows_have_no_index():
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(smooth_calibration([], []).ici)


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(smooth).attempted > 0
    assert doctest.testmod(smooth).failed == 0
