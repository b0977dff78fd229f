"""Columns of numbers and ids: those of a loop over the rows, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.baselines.columns import Codes, Columns, flags
from pipelines.baselines.logistic import BUCKETS, LogisticRegression
from pipelines.baselines.trees import LEAST_ROWS, MOST_IDS, Trees
from tests.support import shop

TABLE = shop.table(61, seed=11, unknown=True)


@pytest.fixture(scope="module")
def columns(fitted):
    return Columns.of(TABLE, fitted)


def test_a_history_is_its_length_last_event_and_matches(fitted, columns) -> None:
    values = {**fitted.apply(TABLE, "context"), **fitted.apply(TABLE, "candidate")}
    for row in range(TABLE.num_rows):
        items, brands = values["past_items"][row], values["past_brands"][row]
        length = max((n + 1 for n in range(5) if items[n] or brands[n]), default=0)
        assert columns.numbers["history/length"][row] == length
        assert columns.ids["past_items/last"][row] == (items[length - 1] if length else 0)
        own = values["item"][row]
        expected = int((items[:length] == own).sum()) if own > 1 else 0  # unknown is no match
        assert columns.numbers["past_items/matches"][row] == expected or own == 0
    assert "searches/matches" not in columns.numbers


def test_each_feature_is_a_number_an_id_or_a_bag(fitted, columns) -> None:
    assert set(columns.bags) == {"interests", "sizes", "tags"}
    assert {"user", "city", "item", "brand"} < set(columns.ids)
    assert {"age", "sales", "rating", "price", "tags/length"} < set(columns.numbers)
    price = fitted.apply(TABLE, "candidate")["price"]
    np.testing.assert_array_equal(np.isnan(columns.numbers["price"]), price == 0)


def test_batches_give_the_columns_of_the_whole(fitted, columns) -> None:
    both = Columns.together([Columns.of(t, fitted) for t in (TABLE.slice(0, 29), TABLE.slice(29))])
    for name in ("numbers", "ids", "bags"):
        for key, values in getattr(columns, name).items():
            np.testing.assert_array_equal(getattr(both, name)[key], values)


def test_rare_and_unknown_ids_share_a_code() -> None:
    ids = np.repeat([0, 1, 2, 5, 9], [40, 40, 7, 3, 11])
    codes = Codes.of(ids, least=5, most=10)
    np.testing.assert_array_equal(codes.ids, [2, 9])
    np.testing.assert_array_equal(codes(np.array([0, 1, 5, 77, 2, 9])), [0, 1, 1, 1, 2, 3])
    np.testing.assert_array_equal(Codes.of(ids, least=5, most=1).ids, [9])
    np.testing.assert_array_equal(Codes.of(ids, least=99, most=9)(np.array([0, 1, 9])), [0, 1, 1])


def test_flags_are_of_frequent_values(columns) -> None:
    tags = columns.bags["tags"]
    values = [v for name in columns.bags for v in np.unique(columns.bags[name]) if v > 1]
    made = list(flags(columns)(columns))
    assert len(made) == len(values)
    first = np.unique(tags)[np.unique(tags) > 1][0]
    expected = (tags == first).any(axis=1)
    assert any(np.array_equal(flag, expected) for flag in made)


def test_each_row_has_one_bucket_of_each_column(columns) -> None:
    matrix = LogisticRegression(columns).encode(columns)
    flagged = sum(1 for _ in flags(columns)(columns))
    count = len(columns.numbers) + len(columns.ids) + flagged
    np.testing.assert_array_equal(matrix.sum(axis=1), np.full((TABLE.num_rows, 1), count))
    assert matrix.shape[1] <= count * (BUCKETS + 2) + sum(ids.max() for ids in columns.ids.values())


def test_ids_of_many_values_are_few_codes_in_trees() -> None:
    ids = np.repeat(np.arange(2, 600), LEAST_ROWS).astype("int32")
    rows = Columns({}, {"user": ids}, {})
    assert Trees(rows).encode(rows).max() == MOST_IDS + 1
    rare = Columns({}, {"user": np.arange(2, 600, dtype="int32")}, {})
    np.testing.assert_array_equal(np.unique(Trees(rare).encode(rare)), [1])
