"""The quality of a shuffle: both numbers are 1 for a perfect one, and known for other orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.shared.shuffling import ShuffleQuality, stream
from pipelines.feed import Feed
from pipelines.feed.order import Order
from tests.support import feeds, shop

COUNT, BATCH, GROUPS = 60_000, 100, 60
ROWS = np.full(GROUPS, COUNT // GROUPS)


def test_quality_of_a_perfect_shuffle_and_of_none() -> None:
    rows = np.array([COUNT])
    order = Order(rows, 3, COUNT)
    found = [ShuffleQuality.of(order, rows, BATCH, epoch) for epoch in range(5)]
    # Standard errors of the means are 0.002 and 0.026.
    np.testing.assert_allclose(np.mean([f.displacement for f in found]), 1, atol=0.01)
    np.testing.assert_allclose(np.mean([f.deviation for f in found]), 1, atol=0.12)

    unshuffled = ShuffleQuality.of(Order(ROWS, None, 4 * BATCH), ROWS, BATCH)
    assert unshuffled.displacement == 0
    np.testing.assert_allclose(unshuffled.deviation, BATCH, rtol=0.01)


@pytest.mark.parametrize(("chunk", "shards"), [(1, 1), (4, 1), (60, 1), (2, 3)])
def test_deviation_of_shuffled_chunks(chunk: int, shards: int) -> None:
    """K of G row groups, each of one label, vary as K draws without replacement."""
    order = Order(ROWS, 3, chunk * COUNT // GROUPS, shards=shards)
    found = [ShuffleQuality.of(order, ROWS, BATCH, epoch).deviation for epoch in range(30)]
    mixed = chunk * shards
    expected = 1 + (shards * BATCH - 1) * (GROUPS - mixed) / (GROUPS - 1) / mixed
    np.testing.assert_allclose(np.mean(found), expected, rtol=0.25)


@pytest.mark.parametrize("shards", [1, 4])
def test_quality_is_finite_with_empty_row_groups(shards: int) -> None:
    rows = np.array([0, 9 * BATCH, 0, 0, 9 * BATCH])
    found = ShuffleQuality.of(Order(rows, 3, BATCH, shards), rows, BATCH)
    assert np.isfinite([found.displacement, found.deviation]).all()
    one = ShuffleQuality.of(Order(np.array([BATCH]), 3, 40), [BATCH], BATCH)
    assert one == ShuffleQuality(1.0, 1.0)


def test_measured_order_is_that_of_the_feed(tmp_path: Path) -> None:
    table = feeds.numbered(53)
    split = feeds.write_split(tmp_path, table, [11] * 9)
    feed = Feed(split, shop.fitted(), "request", 7, seed=5, shuffle_rows=40)
    requests = feeds.requests_of(table)
    order = np.concatenate([*stream(feed.order, feed.counts.requests, epoch=0)])
    assert [requests[number] for number in order] == feeds.order_of(feed)
