"""Counts of requests and steps, without reading the features."""

import pytest

from pipelines.feed import LENGTHS, Feed
from tests.support import feeds


@pytest.mark.sampled(4)
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
