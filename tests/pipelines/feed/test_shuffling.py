"""Quality of a shuffle: both numbers are 1 for a perfect one and known for those that are not."""

from __future__ import annotations

import numpy as np

from pipelines.feed import Feed
from pipelines.feed.order import Order, stream_order
from pipelines.feed.shuffling import ShuffleQuality
from tests.support import feeds

COUNT, BATCH = 60_000, 100


def test_a_perfect_shuffle():
    orders = [np.random.default_rng(seed).permutation(COUNT) for seed in range(5)]
    found = [ShuffleQuality.of(order, BATCH) for order in orders]
    # Standard errors of the means are 0.002 and 0.026.
    np.testing.assert_allclose(np.mean([f.displacement for f in found]), 1, atol=0.01)
    np.testing.assert_allclose(np.mean([f.deviation for f in found]), 1, atol=0.12)


def test_no_shuffle_at_all():
    found = ShuffleQuality.of(np.arange(COUNT), BATCH)
    assert found.displacement == 0
    np.testing.assert_allclose(found.deviation, BATCH, rtol=0.01)


def test_chunks_of_more_rows_are_closer_to_a_perfect_shuffle():
    """A chunk of k of n row groups, each of one label, varies as k draws without replacement."""
    groups = 60
    rows = np.full(groups, COUNT // groups)
    for k in (1, 4, 15, groups):
        order = Order(rows, 3, k * COUNT // groups)
        found = [
            ShuffleQuality.of(stream_order(order, rows, epoch), BATCH).deviation
            for epoch in range(30)
        ]
        expected = 1 + (BATCH - 1) * (groups - k) / (groups - 1) / k
        np.testing.assert_allclose(np.mean(found), expected, rtol=0.25)
    assert "perfect shuffle" in str(ShuffleQuality.of(np.arange(COUNT), BATCH))


def test_the_order_that_is_measured_is_that_of_the_feed(fitted, split, table):
    feed = Feed(split, fitted, "request", 7, seed=5, shuffle_rows=40)
    requests = feeds.requests_of(table)
    order = stream_order(feed.order, feed.counts.requests, epoch=0)
    assert [requests[number] for number in order] == feeds.order_of(feed)
