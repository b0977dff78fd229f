"""HR and NDCG with equal scores, and neighbours, against loops."""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.next_items import K, cosines, matrix, metrics
from pipelines.items import ItemTable


def test_equal_scores_share_their_ranks() -> None:
    """The mean over all orders of equal scores is that of many random ones."""
    rng = np.random.default_rng(0)
    found = rng.integers(0, 3, (5, 23)).astype(float)
    drawn = found + 1e-9 * rng.random((20_000, *found.shape))
    places = (drawn[..., 1:] > drawn[..., :1]).sum(axis=-1)
    hit = places < K
    gain = np.where(hit, 1 / np.log2(places + 2), 0)
    hr, ndcg = metrics(found)
    np.testing.assert_allclose(hr, hit.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(ndcg, gain.mean(axis=0), atol=0.02)


def test_neighbours_are_cosines_of_users() -> None:
    items = ItemTable("item", pa.table({"item": [10, 11, 12, 13]}), np.zeros(4))
    rows = np.array([0, 0, 0, 1, 1, 2, 2])
    users = matrix(items, rows, pa.array([10, 11, 10, 11, 12, 10, 99]))
    dense = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]], float)
    np.testing.assert_array_equal(users.toarray(), dense)
    found = cosines(items, users).toarray()
    assert found[0, 1] == pytest.approx(1 / 2)  # one user of two each
    assert found[1, 2] == pytest.approx(1 / np.sqrt(2))
    np.testing.assert_array_equal(np.diag(found), 0)
    assert found[3].sum() == 0
