"""How far each cluster moves a metric, against small changes of its weight."""

import numpy as np

from pipelines.metrics.influences import COMPARED, mean_of, task_influences
from pipelines.metrics.intervals import auc_influence, gauc_interval, interval_of
from pipelines.metrics.ranking import gauc
from tests.pipelines.metrics.samples import sample


def entropy(labels, scores, weights):
    """Normalised entropy of weighted rows, by its definition."""
    loss = -np.log(np.where(labels == 1, scores, 1 - scores))
    rate = np.average(labels, weights=weights)
    return np.average(loss, weights=weights) / -(
        rate * np.log(rate) + (1 - rate) * np.log(1 - rate)
    )


def test_each_metric_moves_with_its_clusters():
    labels, scores, groups = sample(13)
    found = task_influences(labels, scores, groups, groups)
    assert tuple(found) == COMPARED
    value, moved = auc_influence(labels, scores, groups)  # in the order of the first rows
    np.testing.assert_allclose(found["auc"][0], value)
    np.testing.assert_allclose(np.sort(found["auc"][1]), np.sort(moved), atol=1e-15)
    within = interval_of(*found["gauc"])
    np.testing.assert_allclose(within.value, gauc(labels, scores, groups)[0])
    np.testing.assert_allclose(within.error, gauc_interval(labels, scores, groups).error)
    value, moved = found["normalised_entropy"]
    np.testing.assert_allclose(value, entropy(labels, scores, np.ones(labels.size)))
    step = 1e-6
    for cluster in (0, 7, 30):
        weights = np.where(groups == cluster, 1 + step, 1)
        change = (entropy(labels, scores, weights) - value) / step
        np.testing.assert_allclose(moved[cluster], change, rtol=1e-3)


def test_the_mean_of_models_is_that_of_their_numbers():
    labels, scores, groups = sample()
    both = [task_influences(labels, each, groups, None)["logloss"] for each in (scores, scores**2)]
    value, moved = mean_of(both)
    np.testing.assert_allclose(value, (both[0][0] + both[1][0]) / 2)
    np.testing.assert_allclose(moved, (both[0][1] + both[1][1]) / 2)


def test_one_class_has_nothing_to_compare():
    assert task_influences(np.zeros(3), np.ones(3) / 2, np.arange(3), None) == {}
