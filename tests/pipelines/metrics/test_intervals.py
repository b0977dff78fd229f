"""Intervals against loops over pairs, and their coverage of a known truth."""

import numpy as np
import pytest

from pipelines.metrics import (
    auc,
    auc_difference,
    auc_interval,
    delong_interval,
    gauc,
    gauc_interval,
)
from pipelines.metrics.intervals import mean_influence
from tests.pipelines.metrics.samples import LEVELS, sample

SETS, USERS, ROWS = 1000, 150, 12


def shares_by_loop(labels, scores):
    """For each row the share of rows of the other class that stand right of it."""
    found = np.empty(labels.size)
    for i, (label, score) in enumerate(zip(labels, scores, strict=True)):
        others = scores[labels != label]
        won = score > others if label else score < others
        found[i] = np.mean(won + 0.5 * (score == others))
    return found


def influence_by_loop(labels, scores, clusters):
    shares = shares_by_loop(labels, scores)
    value = shares[labels == 1].mean()
    found = []
    for cluster in np.unique(clusters):
        inside = clusters == cluster
        found.append(
            sum(
                (shares[inside & (labels == label)] - value).sum() / (labels == label).sum()
                for label in (0, 1)
            )
        )
    return np.array(found)


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_errors_of_an_auc_equal_those_of_a_loop(levels):
    labels, scores, groups = sample(levels, rows=211)
    shares = shares_by_loop(labels, scores)
    by_class = [shares[labels == label] for label in (0, 1)]
    expected = sum(each.var(ddof=1) / each.size for each in by_class) ** 0.5
    independent = delong_interval(labels, scores)
    assert independent.value == pytest.approx(auc(labels, scores), abs=1e-12)
    assert independent.error == pytest.approx(expected, abs=1e-12)

    influence = influence_by_loop(labels, scores, groups)
    count = influence.size
    expected = np.sqrt(count / (count - 1) * (influence**2).sum())
    clustered = auc_interval(labels, scores, groups)
    assert clustered.error == pytest.approx(expected, abs=1e-12)
    assert clustered.clusters == count
    assert clustered.low <= clustered.value <= clustered.high


def test_rows_without_a_cluster_are_clusters_of_their_own():
    labels, scores, groups = sample(rows=211)
    alone = np.where(groups < 20, groups, np.nan)
    named = np.where(groups < 20, groups, 1000 + np.arange(211))
    assert auc_interval(labels, scores, alone) == pytest.approx(
        auc_interval(labels, scores, named), rel=1e-12
    )
    single = auc_interval(labels, scores)
    assert single.clusters == 211
    assert single.error == pytest.approx(delong_interval(labels, scores).error, rel=0.01)


def test_the_error_of_a_gauc_equals_that_of_a_loop():
    labels, scores, groups = sample()
    found = gauc_interval(labels, scores, groups)
    value, counted = gauc(labels, scores, groups)
    assert (found.value, found.clusters) == (value, counted)
    moved = []
    for group in np.unique(groups):
        y, z = labels[groups == group], scores[groups == group]
        if 0 < y.sum() < y.size:
            moved.append((y.size, auc(y, z)))
    rows, values = np.array(moved).T
    expected = np.sqrt(counted / (counted - 1) * ((rows * (values - value)) ** 2).sum())
    assert found.error == pytest.approx(expected / rows.sum(), abs=1e-12)


def test_a_difference_is_the_paired_one():
    labels, scores, groups = sample(rows=211)
    others = scores + 0.2 * np.random.default_rng(5).normal(size=scores.size)
    found = auc_difference(labels, scores, others, groups)
    influence = influence_by_loop(labels, scores, groups) - influence_by_loop(
        labels, others, groups
    )
    error = np.sqrt(influence.size / (influence.size - 1) * (influence**2).sum())
    assert found.value == pytest.approx(auc(labels, scores) - auc(labels, others), abs=1e-12)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * error, rel=1e-6)
    back = auc_difference(labels, others, scores, groups)
    assert (back.value, back.p) == pytest.approx((-found.value, found.p), abs=1e-12)
    assert auc_difference(labels, scores, scores * 2, groups)[:4] == (0.0, 0.0, 0.0, 1.0)


def test_a_mean_moves_with_its_clusters():
    values, clusters = np.random.default_rng(1).normal(size=60), np.arange(60) // 4
    mean, moved = mean_influence(values, clusters)
    by_cluster = values.reshape(15, 4).mean(1)
    assert mean == pytest.approx(by_cluster.mean())
    assert np.square(moved).sum() * 15 / 14 == pytest.approx(by_cluster.var(ddof=1) / 15)


@pytest.mark.filterwarnings("ignore:.*not defined.*")
def test_one_class_has_no_interval():
    for found in (delong_interval([1, 1], [0, 1]), auc_interval([1, 1], [0, 1], [1, 2])):
        assert np.isnan([found.value, found.low, found.high, found.error]).all()
    assert np.isnan(auc_difference([1, 1], [0, 1], [1, 0]).p)
    assert np.isnan(gauc_interval([1, 1], [0, 1], [1, 2]).low)


def clustered_sets(seed=0):
    """Labels, scores of two equally good models and users of rows that users make alike."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(USERS), ROWS)

    def correlated():
        return rng.normal(size=USERS)[users] + rng.normal(size=users.size)

    for _ in range(SETS):
        truth, first, second = correlated(), correlated(), correlated()
        labels = (truth + rng.normal(size=users.size) > 1).astype(float)
        yield labels, truth + first, truth + second, users


def test_intervals_by_user_cover_the_truth():
    found = [
        (
            auc_interval(labels, scores, users),
            delong_interval(labels, scores),
            auc_difference(labels, scores, others, users).p,
        )
        for labels, scores, others, users in clustered_sets()
    ]
    truth = np.mean([clustered.value for clustered, _, _ in found])
    by_user, by_row = (
        np.mean([one.low <= truth <= one.high for one in each])
        for each in list(zip(*found, strict=True))[:2]
    )
    rejected = np.mean([p < 0.05 for _, _, p in found])
    print(f"coverage: by user {by_user:.3f}, DeLong {by_row:.3f}; rejected: {rejected:.3f}")
    assert 0.93 <= by_user <= 0.97
    assert by_row < 0.93
    assert 0.03 <= rejected <= 0.07
