"""Counts of items are sums, however the events come."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.events.writing import ItemCounts


@pytest.mark.parametrize("size", [1, 7, 1009])
def test_sums_do_not_depend_on_the_parts(size):
    rng = np.random.default_rng(0)
    items, counts = rng.integers(101, size=1009), rng.integers(2, size=1009)
    found = ItemCounts("film")
    for first in range(0, len(items), size):
        part = pa.chunked_array([items[first : first + size]])
        found.add(part, counts[first : first + size])
    expected = Counter()
    for item, count in zip(items.tolist(), counts.tolist(), strict=True):
        expected[item] += count
    table = found.table().to_pydict()
    assert dict(zip(table["film"], table["count"], strict=True)) == expected


def test_sorted_by_falling_count_then_by_item_without_zeros():
    found = ItemCounts("film")
    found.add(pa.chunked_array([["d", "b", "a", "c", "c"]]), np.array([1, 1, 0, 1, 1]))
    assert found.sorted().to_pydict() == {"film": ["c", "b", "d"], "count": [2, 1, 1]}
