"""The metrics of every report: their influences, against small changes of a cluster's weight."""

import numpy as np
import pytest

from pipelines.metrics import METRICS, ScoredRows
from pipelines.metrics.intervals import auc_influence, gauc_interval, interval_of, mean_of
from pipelines.metrics.score_order import gauc
from tests.pipelines.metrics.samples import sample


def influence(name, labels, scores, clusters, **columns):
    return METRICS[name].influence(ScoredRows(labels, scores, clusters, **columns))


def losses(labels, scores):
    return -np.log(np.where(labels == 1, scores, 1 - scores))


def entropy(labels, scores, weights):
    """Normalised entropy of weighted rows, by its definition."""
    rate = np.average(labels, weights=weights)
    return np.average(losses(labels, scores), weights=weights) / -(
        rate * np.log(rate) + (1 - rate) * np.log(1 - rate)
    )


def excess(labels, scores, weights):
    expected = scores * np.log(scores) + (1 - scores) * np.log(1 - scores)
    return np.average(losses(labels, scores) + expected, weights=weights)


OF_WEIGHTS = {
    "normalised_entropy": entropy,
    "excess_logloss": excess,
    "logloss": lambda y, z, w: np.average(losses(y, z), weights=w),
    "calibration": lambda y, z, w: (w * z).sum() / (w * y).sum(),
}


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_metric_moves_with_its_clusters(name):
    labels, scores, groups = sample(13)
    value, moved = influence(name, labels, scores, groups)
    of = OF_WEIGHTS[name]
    exact = of(labels, scores, np.ones(labels.size))
    np.testing.assert_allclose(value, exact, rtol=1e-8)
    step = 1e-5
    for cluster in (0, 7, 30):
        weights = np.where(groups == cluster, 1 + step, 1)
        change = (of(labels, scores, weights) - exact) / step
        np.testing.assert_allclose(moved[cluster], change, rtol=2e-3)


def test_orders_move_as_their_intervals_say():
    labels, scores, groups = sample(13)
    value, moved = auc_influence(labels, scores, groups)  # in the order of the first rows
    found = influence("auc", labels, scores, groups)
    np.testing.assert_allclose(found[0], value)
    np.testing.assert_allclose(np.sort(found[1]), np.sort(moved), atol=1e-15)
    within = interval_of(*influence("gauc", labels, scores, groups, groups=groups))
    np.testing.assert_allclose(within.value, gauc(labels, scores, groups)[0])
    np.testing.assert_allclose(within.error, gauc_interval(labels, scores, groups).error)


def test_every_shown_metric_can_be_computed_and_read():
    for metric in METRICS.values():
        assert metric.label or metric.name
        assert metric.is_of_all_rows == (metric.of is not None)
        if set(metric.where) & {"segments", "rest", "models"}:
            assert metric.influence is not None, metric.name


def test_the_mean_of_models_is_that_of_their_numbers():
    labels, scores, groups = sample()
    both = [influence("logloss", labels, z, groups) for z in (scores, scores**2)]
    value, moved = mean_of(both)
    np.testing.assert_allclose(value, (both[0][0] + both[1][0]) / 2)
    np.testing.assert_allclose(moved, (both[0][1] + both[1][1]) / 2)
