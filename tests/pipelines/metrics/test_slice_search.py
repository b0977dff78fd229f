"""The search of slices finds what was planted, and keeps its level where nothing was."""

import doctest

import numpy as np
import pytest
from scipy.stats import false_discovery_control, ttest_ind

from pipelines.metrics import slice_search
from pipelines.metrics.intervals import difference
from pipelines.metrics.slice_search import worst_slices
from pipelines.metrics.slice_search_half import Half


def sample(seed, users=400, each=10, planted=None):
    """Right probabilities beside users who click more or less, and five columns of four values.

    Two columns belong to the user. In the planted slice the true rate is another.
    """
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(users), each)
    columns = [rng.integers(0, 4, of.size) for _ in range(3)]
    columns += [rng.integers(0, 4, users)[of] for _ in range(2)]
    scores = 1 / (1 + np.exp(-rng.normal(-2, 0.7, of.size)))
    more = np.minimum(1.5 * scores, 1) - scores
    true = scores + np.where(rng.random(users)[of] < 0.5, more, -more)
    if planted is not None:
        inside = np.logical_and.reduce([columns[place] == value for place, value in planted])
        true = np.where(inside, true + 0.15, true)
    return (rng.random(of.size) < true).astype(float), scores, of, columns


def test_a_planted_slice_is_found_and_confirmed():
    labels, scores, users, columns = sample(0, 2000, planted=((0, 1), (3, 2)))
    order = np.random.default_rng(1).permutation(labels.size)
    shuffled = labels[order], scores[order], users[order], [column[order] for column in columns]
    for rows in ((labels, scores, users, columns), shuffled):
        (found,) = worst_slices(*rows).reported
        assert (found.columns, found.values) == ((0, 3), (1, 2))
    inside = (columns[0] == 1) & (columns[3] == 2)
    assert found.rows == inside.sum()
    assert found.positives == labels[inside].sum()
    assert found.confirmed.low > 0.1
    assert found.adjusted < 0.001
    assert found.calibration < 0.7


def test_a_slice_predicted_too_high_is_found():
    labels, scores, users, columns = sample(3, 2000)
    scores = np.where(columns[4] == 0, np.minimum(1.6 * scores, 0.99), scores)
    found = worst_slices(labels, scores, users, columns).reported
    assert (found[0].columns, found[0].values) == ((4,), (0,))
    assert found[0].confirmed.high < 0
    assert found[0].calibration > 1.3


@pytest.mark.thorough
def test_few_sets_without_a_slice_report_one():
    reports, flattered = 0, 0
    for seed in range(200):
        labels, scores, users, columns = sample(100 + seed)
        found = worst_slices(labels, scores, users, columns, seed)
        assert found.tested > 0
        reports += bool(found.reported)
        half = Half.of(labels, scores, users, columns, users < 200)
        effects = [half.effects(*half.codes((column,))) for column in range(5)]
        sizes = [np.abs((each.mean - each.rest) / each.error).max() for each in effects]
        flattered += max(sizes) > 1.96  # where the search itself would be believed
    assert reports <= 10  # 5 %
    assert flattered > 50


def test_effects_of_all_slices_equal_those_of_each():
    rng = np.random.default_rng(5)
    labels, scores, users, columns = sample(7)
    columns = [*columns, rng.integers(0, 300, labels.size)]
    half = Half.of(labels, scores, users, columns, users % 2 == 0)
    for pair in ((2,), (4,), (0, 3), (1, 5)):
        codes, size = half.codes(pair)
        effects = half.effects(codes, size)
        for code in (0, 3, size - 1):
            inside = codes == code
            np.testing.assert_array_equal(inside, half.inside(pair, half.values(pair, code)))
            expected = difference(*half.influences(inside, half.excess))
            found = effects.mean[code] - effects.rest[code]
            np.testing.assert_allclose(found, expected.value, rtol=1e-9)
            margin = 1.959964 * effects.error[code]
            np.testing.assert_allclose(margin, expected.high - expected.value, rtol=1e-6)


@pytest.mark.parametrize(("rows", "users", "enough"), [(420, 120, True), (380, 120, False),
                                                       (420, 50, False)])  # fmt: skip
def test_small_slices_are_not_searched(rows, users, enough):
    labels, scores, _, _ = sample(2)
    inside = np.arange(labels.size) < rows
    labels[inside] = np.arange(rows) % 2
    clusters = np.where(inside, np.arange(labels.size) % users, 1000 + np.arange(labels.size))
    found = worst_slices(labels, scores, clusters, [inside.astype(int)])
    assert found.searched == 2 * enough


def test_what_is_kept_is_that_of_scipy():
    p = np.random.default_rng(0).random(20) ** 4
    expected = false_discovery_control(p)
    adjusted_values = dict(slice_search._kept(p))
    assert set(adjusted_values) == set(np.flatnonzero(expected <= 0.05))
    for place, adjusted in adjusted_values.items():
        np.testing.assert_allclose(adjusted, expected[place])


def test_p_of_many_alike_rows_is_that_of_students_t():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1, 101), rng.normal(0, 1, 103)
    both = first - first.mean(), second.mean() - second
    moved = np.concatenate([each / each.size for each in both])
    p_value = slice_search._p(first.mean() - second.mean(), moved, [101, 103])
    np.testing.assert_allclose(p_value, ttest_ind(first, second, equal_var=False).pvalue, rtol=0.1)


def test_no_rows_have_no_slices():
    found = worst_slices([], [], [], [np.zeros(0, int)])
    assert found == (0, 0, [])


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(slice_search).attempted > 0
    assert doctest.testmod(slice_search).failed == 0
