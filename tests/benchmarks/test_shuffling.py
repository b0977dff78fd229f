"""Quality of a shuffle: both numbers are 1 for a perfect one and known for those that are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.shared.shuffling import ShuffleQuality, stream
from pipelines.feed import Feed
from pipelines.feed.order import Order
from tests.support import feeds, shop

COUNT, BATCH = 60_000, 100


def test_a_perfect_shuffle():
    rows = np.array([COUNT])
    order = Order(rows, 3, COUNT)
    found = [ShuffleQuality.of(order, rows, BATCH, epoch) for epoch in range(5)]
    # Standard errors of the means are 0.002 and 0.026.
    np.testing.assert_allclose(np.mean([f.displacement for f in found]), 1, atol=0.01)
    np.testing.assert_allclose(np.mean([f.deviation for f in found]), 1, atol=0.12)


def test_no_shuffle_at_all():
    rows = np.full(60, COUNT // 60)
    found = ShuffleQuality.of(Order(rows, None, 4 * BATCH), rows, BATCH)
    assert found.displacement == 0
    np.testing.assert_allclose(found.deviation, BATCH, rtol=0.01)


def expected_deviation(groups: int, k: int, batch: int) -> float:
    """A chunk of k of n row groups, each of one label, varies as k draws without replacement."""
    return 1 + (batch - 1) * (groups - k) / (groups - 1) / k


@pytest.mark.parametrize("k", [1, 4, 15, 60])
def test_chunks_of_more_rows_are_closer_to_a_perfect_shuffle(k: int):
    rows = np.full(60, COUNT // 60)
    order = Order(rows, 3, k * COUNT // 60)
    found = [ShuffleQuality.of(order, rows, BATCH, epoch).deviation for epoch in range(30)]
    np.testing.assert_allclose(np.mean(found), expected_deviation(60, k, BATCH), rtol=0.25)


def test_a_step_mixes_the_chunks_of_all_lanes():
    rows = np.full(60, COUNT // 60)
    order = Order(rows, 3, 2 * COUNT // 60, shards=3)
    found = [ShuffleQuality.of(order, rows, BATCH, epoch).deviation for epoch in range(30)]
    np.testing.assert_allclose(np.mean(found), expected_deviation(60, 6, 3 * BATCH), rtol=0.25)


def test_batches_of_which_a_lane_has_no_share_count_too():
    """One row group for two shards: one of them has nothing, and every batch is half as large."""
    rows = np.array([10 * BATCH])
    assert 0.3 < ShuffleQuality.of(Order(rows, 3, 1, shards=2), rows, BATCH).deviation < 3


@pytest.mark.parametrize("shards", [1, 4])
def test_row_groups_may_be_empty(shards: int):
    """As an empty file has one, which may be a chunk, or a shard, of its own."""
    rows = np.array([0, 9 * BATCH, 0, 0, 9 * BATCH])
    for epoch in range(9):
        found = ShuffleQuality.of(Order(rows, 3, BATCH, shards), rows, BATCH, epoch)
        assert np.isfinite([found.displacement, found.deviation]).all()


@pytest.mark.parametrize("rows", [1, BATCH])
def test_one_batch_is_in_no_order(rows: int):
    found = ShuffleQuality.of(Order(np.array([rows]), 3, 40), [rows], BATCH)
    assert found == ShuffleQuality(1.0, 1.0)


def test_the_measured_order_is_the_feeds(tmp_path: Path) -> None:
    table = feeds.numbered(53)
    split = feeds.write_split(tmp_path, table, [11] * 9)
    feed = Feed(split, shop.fitted(), "request", 7, seed=5, shuffle_rows=40)
    requests = feeds.requests_of(table)
    order = np.concatenate([*stream(feed.order, feed.counts.requests, epoch=0)])
    assert [requests[number] for number in order] == feeds.order_of(feed)
