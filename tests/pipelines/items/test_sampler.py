"""Draws against the exact probabilities of drawing one item after another."""

import itertools

import numpy as np
import pytest
from scipy import stats

from pipelines.items import Sampler

WEIGHTS = np.array([8.0, 1.0, 3.0, 0.5, 2.0])


def probabilities(weights, allowed, count):
    """The probability of each ordered draw of `count` items."""
    found = {}
    for draw in itertools.permutations(allowed, count):
        left, p = sum(weights[list(allowed)]), 1.0
        for item in draw:
            p, left = p * weights[item] / left, left - weights[item]
        found[draw] = p
    return found


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("count", [1, 2])
def test_draws_have_their_probabilities(weights, count):
    sampler = Sampler(np.arange(5, dtype="int32"), weights)
    taken = np.tile([1, -1, 1], (20_000, 1))
    drawn = sampler.draw(np.random.default_rng(3), taken, count)
    expected = probabilities(np.ones(5) if weights is None else weights, (0, 2, 3, 4), count)
    seen, counts = np.unique(drawn, axis=0, return_counts=True)
    by_draw = dict(zip(map(tuple, seen.tolist()), counts, strict=True))
    assert by_draw.keys() <= expected.keys()
    observed = [by_draw.get(draw, 0) for draw in expected]
    assert stats.chisquare(observed, np.array(list(expected.values())) * len(drawn)).pvalue > 1e-3


@pytest.mark.parametrize("weights", [None, 1 / np.arange(1, 1001) ** 2])
def test_draws_differ_and_leave_out_what_is_taken(weights):
    sampler = Sampler(np.arange(1000, dtype="int32"), weights)
    rng = np.random.default_rng(1)
    taken = rng.integers(-1, 30, (53, 11))
    drawn = sampler.draw(rng, taken, 37)
    for row, own in zip(drawn, taken, strict=True):
        assert len(set(row)) == 37
        assert not set(row) & set(own)
        assert -1 not in row


def test_short_catalogue_gives_what_is_left():
    drawn = Sampler(np.arange(4, dtype="int32")).draw(
        np.random.default_rng(0), np.array([[2, 0], [-1, -1]]), 3
    )
    assert sorted(drawn[0, :2]) == [1, 3]
    assert drawn[0, 2] == -1
    assert -1 not in drawn[1]


def test_batch_counts_are_the_weights():
    sampler = Sampler.of_batch(np.array([5, 3, -1, 5, 5, 3, 9]))
    np.testing.assert_array_equal(sampler.rows, [3, 5, 9])
    np.testing.assert_array_equal(sampler.weights, [2, 3, 1])
    empty = Sampler.of_batch(np.array([-1])).draw(np.random.default_rng(0), np.zeros((2, 1)), 3)
    np.testing.assert_array_equal(empty, np.full((2, 3), -1))
