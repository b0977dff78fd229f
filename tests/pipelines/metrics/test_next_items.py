"""Next items against full sorts and every order of ties, and in parts."""

import doctest
import itertools
import math

import numpy as np
import pytest

from pipelines.metrics import next_items
from pipelines.metrics.next_items import NextItems, best, sampled_places, target_places

AT = (1, 3, 5)
ROWS, SIZE = 23, 9
NAMES = ("hr", "ndcg", "mrr", "map", "recall")


def of_place(place, k):
    """The metrics of a target at a place from 1 on."""
    hit = place <= k
    found = (hit, hit / math.log2(1 + place), hit / place, hit / place, hit)
    return {f"{name}@{k}": float(value) for name, value in zip(NAMES, found, strict=True)}


def ranked_ids(target, out):
    return [i for i in range(2, SIZE) if i == target or i not in out]


def by_all_orders(scores, target, out):
    """The mean of the metrics over all orders in which no score rises."""
    if target < 2:
        return {name: 0.0 for k in AT for name in of_place(1, k)}
    places = [
        order.index(target) + 1
        for order in itertools.permutations(ranked_ids(target, out))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    found = [{name: x for k in AT for name, x in of_place(p, k).items()} for p in places]
    return {name: np.mean([metrics[name] for metrics in found]) for name in found[0]}


@pytest.fixture
def rows():
    """Scores with ties, targets of which some are unknown, and excluded items with repeats."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (ROWS, SIZE)) / 4
    scores[:, :2] = 7  # of no item
    targets = rng.integers(1, SIZE, ROWS)
    excluded = rng.integers(-1, SIZE, (ROWS, 5))
    excluded[4, :2] = targets[4]  # seen, and ranked all the same
    return scores, targets, excluded


def found_in(rows, numbers):
    found = NextItems(AT, SIZE)
    scores, targets, excluded = (each[numbers] for each in rows)
    above, equal = target_places(scores, targets, excluded)
    found.add(above, equal, best(scores, max(AT), excluded)[0], targets)
    return found


def test_metrics_are_the_means_over_all_orders_of_ties(rows):
    found = found_in(rows, np.arange(ROWS))
    expected = [by_all_orders(*row) for row in zip(*rows, strict=True)]
    assert found.rows == ROWS
    assert found.unknown == (rows[1] < 2).sum() > 0
    for name, ends in found.intervals().items():
        values = np.array([each[name] for each in expected])
        half = 1.959964 * values.std(ddof=1) / ROWS**0.5
        np.testing.assert_allclose(found.metrics()[name], values.mean(), rtol=1e-12)
        inside = np.clip([values.mean() - half, values.mean() + half], 0, 1)
        np.testing.assert_allclose(ends, inside, rtol=1e-6)


def test_places_are_those_of_a_full_sort(rows):
    above, equal = target_places(*rows)
    for row, (scores, target, out) in enumerate(zip(*rows, strict=True)):
        others = scores[[i for i in ranked_ids(target, out) if i != target]]
        if target < 2:
            assert (above[row], equal[row]) == (len(others), 0)
        else:
            assert above[row] == (others > scores[target]).sum()
            assert equal[row] == (others == scores[target]).sum()


def test_best_is_a_stable_sort_of_the_ranked_items(rows):
    scores, _, excluded = rows
    for k in (1, 3, SIZE + 2):
        ids, values = best(scores, k, excluded)
        assert ids.shape == values.shape == (ROWS, k)
        for row, out in enumerate(excluded):
            expected = sorted(ranked_ids(None, out), key=lambda i: (-scores[row, i], i))[:k]
            left = k - len(expected)
            assert ids[row].tolist() == expected + [-1] * left
            assert values[row].tolist() == [*scores[row, expected], *[-np.inf] * left]


def test_coverage_is_the_share_of_the_items_in_any_first_places(rows):
    tops = [
        sorted(ranked_ids(None, out), key=lambda i: (-scores[i], i))
        for scores, _, out in zip(*rows, strict=True)
    ]
    metrics = found_in(rows, np.arange(ROWS)).metrics()
    for k in AT:
        assert metrics[f"coverage@{k}"] == len({i for top in tops for i in top[:k]}) / (SIZE - 2)


def test_parts_in_any_order_give_exactly_the_same(rows):
    whole = found_in(rows, np.arange(ROWS))
    order = np.random.default_rng(5).permutation(ROWS)
    one, two, three = (found_in(rows, part) for part in np.split(order, [4, 15]))
    for merged in (one.merged(two).merged(three), three.merged(one.merged(two))):
        assert merged.metrics() == whole.metrics()
        assert merged.intervals() == whole.intervals()
        assert (merged.rows, merged.unknown) == (whole.rows, whole.unknown)
    in_parts = NextItems(AT, SIZE)
    for part in np.split(order, [1, 11]):
        scores, targets, excluded = (each[part] for each in rows)
        places = target_places(scores, targets, excluded)
        in_parts.add(*places, best(scores, max(AT), excluded)[0], targets)
    assert in_parts.metrics() == whole.metrics()


def test_a_target_is_first_where_all_others_are_excluded():
    scores = np.array([[0.9, 0.8, 0.1, 0.7, 0.7]], "float32")
    everything = np.arange(5)[None]
    assert [x.item() for x in target_places(scores, np.array([2]), everything)] == [0, 0]
    assert best(scores, 3, everything)[0].tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize("unknown", [0, 1])
def test_an_unknown_target_misses_even_where_k_is_larger_than_the_catalogue(unknown):
    found = NextItems([10], size=5)
    scores, targets = np.zeros((1, 5)), np.array([unknown])
    above, equal = target_places(scores, targets, np.array([[3]]))
    found.add(above, equal, None, targets)
    assert (above.item(), equal.item()) == (2, 0)
    assert found.metrics()["hr@10"] == 0
    assert found.unknown == 1


def test_equal_scores_are_a_random_order():
    """Each of 19 items is at each place with the same probability."""
    found = NextItems([7])
    scores, targets = np.zeros((2, 21)), np.array([3, 20])
    found.add(*target_places(scores, targets, np.empty((2, 0), int)), None, targets)
    places = np.arange(1, 8)
    np.testing.assert_allclose(found.metrics()["hr@7"], 7 / 19, rtol=1e-12)
    np.testing.assert_allclose(found.metrics()["mrr@7"], (1 / places).sum() / 19, rtol=1e-12)
    assert found.metrics()["recall@7"] == found.metrics()["hr@7"]
    assert found.metrics()["map@7"] == found.metrics()["mrr@7"]
    assert np.ptp(found.intervals()["ndcg@7"]) < 1e-15  # the rows do not differ


def test_infinite_scores_rank_at_the_ends():
    scores = np.array([[0, 0, -np.inf, 1, np.inf]])
    at_end, at_start = (target_places(scores, np.array([i]), np.array([[-1]])) for i in (2, 4))
    assert [x.item() for x in (*at_end, *at_start)] == [2, 0, 0, 0]
    assert best(scores, 3, np.array([[-1]]))[0].tolist() == [[4, 3, -1]]


def test_sampled_places_are_among_the_drawn_items():
    scores = np.array([[9, 9, 0.5, 0.7, 0.5, 0.1]] * 3)
    drawn = np.array([[3, 4, 5], [4, -1, -1], [5, 3, -1]])
    above, equal = sampled_places(scores, np.array([2, 2, 1]), drawn)
    assert above.tolist() == [1, 0, 2]
    assert equal.tolist() == [1, 1, 0]


def test_no_rows_leave_nothing_to_measure():
    found = NextItems([3], size=7)
    assert found.metrics() == {f"{name}@3": None for name in NAMES} | {"coverage@3": 0.0}
    assert set(found.intervals().values()) == {(0.0, 1.0)}


@pytest.mark.parametrize("function", [target_places, best, sampled_places])
def test_scores_that_cannot_be_ranked_are_refused(function):
    def call(scores):
        others = (3, np.zeros((2, 1), int)) if function is best else ([2, 2], [[3], [3]])
        return function(scores, *map(np.asarray, others))

    with pytest.raises(ValueError, match=r"`scores` must be numbers. Received: 1 nan of 10"):
        call(np.array([[0, 0, 1, 2, np.nan], [0, 0, 1, 2, 3]]))
    with pytest.raises(ValueError, match=r"shape \(B, V\).* scores.shape=\(3, 5\) and B=2"):
        call(np.zeros((3, 5)))


@pytest.mark.parametrize("at", [[], [0, 5]])
def test_places_must_be_positive(at):
    with pytest.raises(ValueError, match=r"positive numbers of places. Received: at=\["):
        NextItems(at)


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(next_items).failed == 0
