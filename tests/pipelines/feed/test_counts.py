"""Counts of requests and steps, without reading the features."""

import numpy as np
import pytest

from pipelines.feed import LENGTHS, Feed
from pipelines.feed.batch import BatchSize
from pipelines.feed.counts import RequestCounts
from pipelines.feed.order import Order
from pipelines.storage.dataset import Reader
from tests.support import feeds


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("candidates", [1, 4, 13, 29, 34, 35, 56, 999])
@pytest.mark.parametrize("request_column", ["request", None])
def test_steps_are_the_batches_of_the_longest_shard(
    fitted, table, tmp_path, candidates, lengths, request_column
):
    split = feeds.write_split(tmp_path, table, [3, 17, 5, 11])
    for shards in (1, 3):
        feed = Feed(split, fitted, request_column, 7, 5, 40, candidates, lengths, shards)
        apart = [
            len(list(Feed(**{**vars_of(feed), "shard_indices": (index,)})))
            for index in range(shards)
        ]
        assert set(apart) == {feed.steps(0)}


def vars_of(feed):
    return {name: getattr(feed, name) for name in feed.__dataclass_fields__}


def test_only_long_requests_are_read_again(split, monkeypatch):
    counts = RequestCounts.read(split, "request")
    read = []
    original = Reader.row_groups

    def noted(self, numbers):
        read.extend(numbers)
        return original(self, numbers)

    monkeypatch.setattr(Reader, "row_groups", noted)
    order = Order(split.footers.rows, 5, 1)
    assert counts.steps(order, 0, BatchSize(7, 35)) == 8
    assert read == []
    short = np.flatnonzero(counts.longest < 5)
    counts.steps(order, 0, BatchSize(7, 34))
    assert sorted(read) == sorted(set(range(len(split.footers))) - set(short))
