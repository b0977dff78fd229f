"""Joins by the item's id, and the saved table."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.items import ItemTable

TABLE = pa.table({"item": ["b", "a", "c"], "price": [2.0, 1.0, None], "tags": [["x"], [], None]})
ITEMS = ItemTable("item", TABLE, np.array([3, 0, 5]))


@pytest.mark.parametrize("encoded", [False, True])
def test_join_gives_nulls_for_unknown_ids(encoded):
    ids = pa.chunked_array([["a", None, "new"], ["c", "b"]])
    rows = pa.table({"item": ids.dictionary_encode() if encoded else ids, "price": [9.0] * 5})
    np.testing.assert_array_equal(ITEMS.rows(rows["item"]), [1, -1, -1, 2, 0])
    joined = ITEMS.join(rows)
    assert joined["item"].to_pylist() == ["a", None, "new", "c", "b"]
    assert joined["price"].to_pylist() == [1.0, None, None, None, 2.0]
    assert joined["tags"].to_pylist() == [[], None, None, None, ["x"]]


def test_saved_table_is_the_same(tmp_path):
    assert ItemTable.load(tmp_path) is None
    ITEMS.save(tmp_path)
    loaded = ItemTable.load(tmp_path)
    assert (loaded.key, loaded.features) == ("item", ("price", "tags"))
    assert loaded.table.equals(TABLE)
    np.testing.assert_array_equal(loaded.positives, ITEMS.positives)
