"""Ranks within rows, and their correlation, against loops."""

import numpy as np
import pytest

from pipelines.metrics.midranks import midranks, rank_correlation


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 5, (40, 7)).astype(float)
    drawn[rng.random(drawn.shape) < 0.2] = np.nan
    return drawn


def of_row(row: np.ndarray) -> list[float]:
    known = row[~np.isnan(row)]
    return [
        np.nan if np.isnan(x) else (known < x).sum() + ((known == x).sum() + 1) / 2 for x in row
    ]


def test_ranks_are_those_of_a_loop(rows):
    np.testing.assert_array_equal(midranks(rows), [of_row(row) for row in rows])
    np.testing.assert_array_equal(midranks(rows.reshape(4, 10, 7)).reshape(40, 7), midranks(rows))


def test_correlation_is_that_of_the_ranks(rows):
    others = np.random.default_rng(1).normal(size=rows.shape)
    found = rank_correlation(rows, others)
    for row, other, value in zip(rows, others, found, strict=True):
        known = ~np.isnan(row)
        left, right = of_row(row[known]), of_row(other[known])
        if len(set(left)) < 2:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(np.corrcoef(left, right)[0, 1], abs=1e-12)


def test_one_row_is_compared_with_each(rows):
    time = np.arange(7.0)
    whole = rank_correlation(rows, np.tile(time, (40, 1)))
    np.testing.assert_array_equal(rank_correlation(rows, time), whole)
