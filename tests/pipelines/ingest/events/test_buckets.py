"""Buckets hold whole users, in the order of their hashes."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.events import buckets
from pipelines.ingest.events.buckets import Buckets, user_hashes

EVENTS = 1009


@pytest.mark.parametrize("size", [3, 97, EVENTS])
def test_buckets_divide_users_by_ranges_of_hashes_and_keep_the_order(size, tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET", size)
    users = np.random.default_rng(0).integers(211, size=EVENTS)
    table = pa.table({"who": users, "row": np.arange(EVENTS)})
    with Buckets(tmp_path, EVENTS) as found:
        for first in range(0, EVENTS, 307):
            found.add(table.slice(first, 307), "who")
        tables = list(found.tables())
    assert 1 <= len(tables) <= min(-(-EVENTS // size), 256)
    assert (len(tables) == 1) == (size == EVENTS)
    hashes = [user_hashes(part["who"]) for part in tables]
    for before, after in pairwise(hashes):
        assert before.max() < after.min()
    rows = [part["row"].to_numpy() for part in tables]
    assert all((np.diff(part) > 0).all() for part in rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(EVENTS))
