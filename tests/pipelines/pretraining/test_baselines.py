"""The rules against dense matrices and scipy."""

import doctest

import numpy as np
import pytest
from scipy import sparse

from pipelines.metrics.next_items import best
from pipelines.pretraining import baselines
from pipelines.pretraining.baselines import ItemItem, Popularity

USERS, SIZE, LONGEST = 41, 19, 7


@pytest.fixture
def rows():
    """Ids padded with 0, with repeats and unknown items; the last three items occur nowhere."""
    rng = np.random.default_rng(2)
    ids = rng.integers(1, SIZE - 3, (USERS, LONGEST))
    ids[np.arange(LONGEST) >= rng.integers(1, LONGEST + 1, USERS)[:, None]] = 0
    return ids


@pytest.fixture
def counts():
    return np.random.default_rng(4).permutation(SIZE)


def matrix(rows):
    """A 1 for each row and known item `(rows, SIZE)`."""
    found = np.zeros((len(rows), SIZE))
    for row, ids in enumerate(rows):
        found[row, ids[ids >= 2]] = 1
    return found


def cosines(rows, neighbours=SIZE):
    """Of each item (row), the neighbours' cosines; 0 elsewhere."""
    users = sparse.csr_matrix(matrix(rows))
    both = (users.T @ users).toarray()
    norms = np.sqrt(np.maximum(np.diag(both), 1))
    found = both / norms[:, None] / norms
    np.fill_diagonal(found, 0)
    for row in found:
        row[np.argsort(-row.round(12), kind="stable")[neighbours:]] = 0
    return found


def expected_scores(rows, histories, counts, neighbours=SIZE):
    return matrix(histories) @ cosines(rows, neighbours) + 1e-9 * counts / counts.max()


def test_popularity_is_the_count_for_every_history(counts):
    scores = Popularity(counts).scores(np.zeros((3, 5), int))
    np.testing.assert_array_equal(scores, np.tile(counts, (3, 1)))
    assert best(scores, 1, np.zeros((3, 0), int))[0].tolist() == [[counts[2:].argmax() + 2]] * 3


@pytest.mark.parametrize("neighbours", [3, 200])
def test_scores_are_the_sums_of_the_neighbours_cosines(rows, counts, neighbours):
    histories = np.where(rows == 0, -1, rows)[:11]  # padded in another way, which changes nothing
    scores = ItemItem([rows], SIZE, counts, neighbours).scores(histories)
    expected = expected_scores(rows, histories, counts, neighbours)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=0)


def test_the_order_of_the_same_cosine_is_that_of_the_counts(rows, counts):
    """A history without a neighbour has cosines of 0 alone."""
    scores = ItemItem([rows], SIZE, counts).scores(np.array([[1, SIZE - 1, 0]]))
    np.testing.assert_array_equal(np.argsort(scores[0]), np.argsort(counts))


@pytest.mark.parametrize("pairs", [1, 13, 67, 499])
@pytest.mark.parametrize("at_once", [1, 17])
def test_batches_and_blocks_change_nothing(rows, counts, pairs, at_once, monkeypatch):
    """Blocks of one item in many pieces, of few items, and of many."""
    whole = ItemItem([rows], SIZE, counts, neighbours=5).scores(rows)
    monkeypatch.setattr(baselines, "PAIRS", pairs)
    batches = (rows[begin : begin + at_once] for begin in range(0, USERS, at_once))
    found = ItemItem(batches, SIZE, counts, neighbours=5).scores(rows)
    np.testing.assert_array_equal(found, whole)


def test_a_large_catalogue_is_counted_as_a_small_one(rows, counts):
    """Ids far apart leave no table of all pairs."""
    factor = 10**5 // SIZE
    wide = np.where(rows >= 2, rows * factor, rows)
    rule = ItemItem([wide], SIZE * factor, np.repeat(counts, factor), neighbours=5)
    expected = ItemItem([rows], SIZE, counts, neighbours=5).scores(rows[:3])
    found = rule.scores(wide[:3])
    np.testing.assert_allclose(found[:, ::factor], expected, rtol=1e-12)
    assert found.reshape(3, SIZE, factor)[:, :, 1:].max() <= 1e-9


def test_users_of_one_item_make_no_neighbours(counts):
    scores = ItemItem([np.array([[3, 3], [4, 0]])], SIZE, counts).scores(np.array([[3, 4]]))
    np.testing.assert_allclose(scores[0], 1e-9 * counts / counts.max(), rtol=1e-12)


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(baselines).failed == 0
