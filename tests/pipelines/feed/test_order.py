"""The order of an epoch: every row group once, dealt evenly, and decided by seed and epoch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipelines.feed import Position
from pipelines.feed.order import Order

ROWS = np.random.default_rng(5).integers(1, 23, 61)


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("shards", [1, 2, 5, 61, 67])
def test_every_row_group_is_in_one_chunk_of_one_shard(seed, shards):
    order = Order(ROWS, seed, shuffle_rows=40, shards=shards)
    dealt = order.chunks(3)
    assert len(dealt) == shards
    groups = [group for chunks in dealt for chunk in chunks for group in chunk]
    np.testing.assert_array_equal(np.sort(groups), np.arange(61))
    totals = [sum(ROWS[chunk].sum() for chunk in chunks) for chunks in dealt]
    assert max(totals) - min(totals) <= ROWS.max()
    for chunks in dealt:
        for chunk in chunks:
            assert ROWS[chunk].sum() <= 40
            np.testing.assert_array_equal(chunk, np.sort(chunk))


def test_large_row_group_is_its_own_chunk():
    order = Order(np.array([3, 101, 2, 2, 97]), None, shuffle_rows=5)
    assert [chunk.tolist() for chunk in order.chunks(0)[0]] == [[0], [1], [2, 3], [4]]


def test_a_position_is_plain_data():
    position = Position(3, 41, ((2, 17), (5, 0)))
    assert Position.from_dict(json.loads(json.dumps(position.to_dict()))) == position
    assert Position.from_dict(Position().to_dict()) == Position()
