"""Metrics among drawn items."""

import doctest

import numpy as np
import pytest

from pipelines.metrics.next_items import NextItems, target_places
from pipelines.pretraining import sampled
from pipelines.pretraining.sampled import SAMPLED_WARNING, SampledItems

ROWS, SIZE, NEGATIVES = 53, 31, 7
RULES = ("uniform", "popularity")


@pytest.fixture
def rows():
    """Scores with ties, targets of which some are unknown, and seen items."""
    rng = np.random.default_rng(6)
    scores = rng.integers(0, 11, (ROWS, SIZE)) / 8
    return scores, rng.integers(1, SIZE, ROWS), rng.integers(-1, SIZE, (ROWS, 5))


@pytest.fixture
def counts():
    found = np.random.default_rng(7).integers(1, 100, SIZE)
    found[[2, 11]] = 0
    return found


@pytest.mark.parametrize("by", RULES)
def test_draws_are_different_items_neither_the_target_nor_excluded(rows, counts, by):
    drawn = SampledItems([5], counts, NEGATIVES, by, seed=3).draw(0, *rows[1:])
    for ids, target, out in zip(drawn, *rows[1:], strict=True):
        assert len(set(ids)) == NEGATIVES
        assert not set(ids) & {0, 1, target, *out}
    assert {2, 11}.isdisjoint(drawn.flat) == (by == "popularity")


@pytest.mark.parametrize("by", RULES)
def test_batches_change_nothing(rows, counts, by):
    whole, parts = (SampledItems([1, 5], counts, NEGATIVES, by, seed=3) for _ in range(2))
    whole.add(*rows)
    for part in np.split(np.arange(ROWS), [1, 19, 36]):
        parts.add(*(each[part] for each in rows))
    assert parts.metrics() == whole.metrics()
    assert parts.intervals() == whole.intervals()


def test_seeds_and_rows_draw_differently(rows, counts):
    one, other = (SampledItems([5], counts, NEGATIVES, "uniform", seed) for seed in (3, 4))
    targets, excluded = (np.repeat(each[:1], 2, axis=0) for each in rows[1:])
    (first, second), (third, _) = (x.draw(0, targets, excluded) for x in (one, other))
    assert len({tuple(first), tuple(second), tuple(third)}) == 3


@pytest.mark.parametrize("by", RULES)
def test_drawing_all_items_is_the_whole_catalogue(rows, counts, by):
    """Where no count is 0, which popularity never draws."""
    scores, targets, excluded = rows
    found = SampledItems([1, 5], np.maximum(counts, 1), SIZE, by, seed=3)
    found.add(*rows)
    whole = NextItems([1, 5])
    whole.add(*target_places(scores, targets, excluded), None, targets)
    assert found.metrics() == {f"sampled_{n}": value for n, value in whole.metrics().items()}
    assert found.intervals() == {f"sampled_{n}": ends for n, ends in whole.intervals().items()}


def test_popular_items_are_drawn_in_proportion_to_their_counts():
    counts = np.array([0, 0, 1, 2, 3, 5])
    targets, excluded = np.full(4001, 1), np.empty((4001, 0), int)
    drawn = SampledItems([1], counts, 1, "popularity", seed=0).draw(0, targets, excluded)
    shares = np.bincount(drawn[:, 0], minlength=6) / 4001
    np.testing.assert_allclose(shares, counts / counts.sum(), atol=0.03)


def test_the_warning_names_the_source():
    assert "cannot be compared" in SAMPLED_WARNING
    assert "Krichene and Rendle" in SAMPLED_WARNING


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(sampled).failed == 0
