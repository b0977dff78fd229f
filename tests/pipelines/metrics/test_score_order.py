"""AUC, GAUC and the ROC curve against scikit-learn and slow loops."""

import doctest

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipelines.metrics import (
    auc,
    average_precision,
    gauc,
    intervals,
    probability,
    roc_curve,
    score_order,
    segment_metrics,
)
from tests.pipelines.metrics.samples import LEVELS, ROWS, sample


def auc_by_pairs(labels, scores):
    won = pairs = 0.0
    for i in np.flatnonzero(labels == 1):
        for j in np.flatnonzero(labels == 0):
            pairs += 1
            won += (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
    return won / pairs


def gauc_by_loop(labels, scores, groups):
    total = rows = counted = 0
    for group in sorted(set(groups)):
        of_group = np.array([g == group for g in groups])
        if len(set(labels[of_group])) == 2:
            total += of_group.sum() * auc_by_pairs(labels[of_group], scores[of_group])
            rows += of_group.sum()
            counted += 1
    return total / rows, counted


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_auc_equals_scikit_learn_and_the_pairs(levels, dtype):
    labels, scores, _ = sample(levels)
    scores = scores.astype(dtype)
    expected = sklearn_metrics.roc_auc_score(labels, scores)
    np.testing.assert_allclose(auc(labels, scores), expected, rtol=1e-12)
    few = slice(0, 101)
    expected = auc_by_pairs(labels[few], scores[few])
    np.testing.assert_allclose(auc(labels[few], scores[few]), expected, rtol=1e-12)


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_average_precision_equals_scikit_learn(levels):
    labels, scores, _ = sample(levels)
    expected = sklearn_metrics.average_precision_score(labels, scores)
    np.testing.assert_allclose(average_precision(labels, scores), expected, rtol=1e-12)


def test_auc_sees_only_the_order():
    labels, scores, _ = sample()
    logits = np.log(scores) - np.log1p(-scores)
    assert auc(labels, logits) == auc(labels, scores)
    assert auc(labels, -scores) == pytest.approx(1 - auc(labels, scores), abs=1e-15)
    assert auc([0, 1, 1], [-np.inf, 2, np.inf]) == 1.0
    assert auc([False, True, True], [1, 2, 1]) == 0.75


def test_auc_is_exact_beyond_float32():
    rows = 2**25 // 16  # sums of ones stop growing at 2**24 in float32
    labels = np.tile(np.array([0, 1], dtype=np.int8), rows)
    assert auc(labels, np.arange(2 * rows)) == (rows + 1) / (2 * rows)


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_gauc_equals_the_loop_over_groups(levels):
    labels, scores, groups = sample(levels, rows=499)
    labels[groups == 11] = 0
    labels[groups == 23] = 1
    value, counted = gauc(labels, scores, groups)
    expected, expected_counted = gauc_by_loop(labels, scores, groups)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert counted == expected_counted
    assert counted <= 29


def test_gauc_takes_any_kind_of_group_in_any_order():
    labels, scores, groups = sample(levels=13)
    expected = gauc(labels, scores, groups)
    names = np.array([f"user {group * 7919 % 1009}" for group in groups])
    for same in (groups - 10**12, groups * 1.5, names, names.astype(object)):
        value, counted = gauc(labels, scores, same)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        assert counted == expected[1]
    order = np.random.default_rng(1).permutation(ROWS)
    value, _ = gauc(labels[order], scores[order], groups[order])
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_roc_curve_with_points_enough_equals_scikit_learn(levels):
    labels, scores, _ = sample(levels)
    found = roc_curve(labels, scores, points=100_003)
    false_positives, true_positives, _ = sklearn_metrics.roc_curve(
        labels, scores, drop_intermediate=False
    )
    np.testing.assert_allclose(found.false_positive_rate, false_positives, atol=1e-12)
    np.testing.assert_allclose(found.true_positive_rate, true_positives, atol=1e-12)


def test_thinned_roc_curve_keeps_its_shape():
    labels, scores, _ = sample(rows=50_021)
    found = roc_curve(labels, scores)
    assert 100 < found.true_positive_rate.size <= 200
    assert (np.diff(found.true_positive_rate) >= 0).all()
    np.testing.assert_array_equal([c[0] for c in found], [0, 0])
    np.testing.assert_array_equal([c[-1] for c in found], [1, 1])
    area = np.trapezoid(found.true_positive_rate, found.false_positive_rate)
    np.testing.assert_allclose(area, auc(labels, scores), atol=1e-4)


@pytest.mark.parametrize("module", [intervals, probability, score_order, segment_metrics])
def test_the_examples_in_the_docstrings_run(module):
    found = doctest.testmod(module)
    assert found.attempted >= 3
    assert found.failed == 0
