"""Statistics: mergeable, and equal to counts over the rows."""

from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.distributions import statistics as module
from pipelines.distributions.reference import of_split
from pipelines.distributions.statistics import (
    Statistics,
    bin_name,
    load,
    merge,
    of_features,
    save,
    value_bins,
)
from pipelines.distributions.value_counts import NOTHING, Counts, key_numbers
from pipelines.features import FittedFeatures
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Schema, Task, is_listed
from tests.support import shop
from tests.support.exports import split_requests


def counted(fitted: FittedFeatures, table: pa.Table) -> Statistics:
    return {**of_features(fitted, table, "context"), **of_features(fitted, table, "candidate")}


def assert_equal(first: Statistics, second: Statistics) -> None:
    assert {n for n, c in first.items() if c.total} == {n for n, c in second.items() if c.total}
    for name in first.keys() & second.keys():
        np.testing.assert_array_equal(first[name].keys, second[name].keys, err_msg=name)
        np.testing.assert_array_equal(first[name].counts, second[name].counts, err_msg=name)


def test_parts_count_as_the_whole_and_are_saved(fitted: FittedFeatures, tmp_path: Path) -> None:
    table = shop.table(61, seed=3, unknown=True)
    parts = [counted(fitted, table.slice(start, 19)) for start in range(0, table.num_rows, 19)]
    assert_equal(reduce(merge, parts[::-1], {}), counted(fitted, table))
    found = counted(fitted, table)
    save({**found, "task/click/scores": NOTHING}, tmp_path)
    assert_equal(load(tmp_path), found)
    save({}, tmp_path)
    assert load(tmp_path) == {}


def test_numbers_are_those_of_the_rows(fitted: FittedFeatures) -> None:
    table = shop.table(61, seed=3, unknown=True)
    found = counted(fitted, table)
    for feature in fitted.schema.features:
        prefix, column = f"feature/{feature.name}", table[feature.name].to_pylist()
        missing = {None, "", shop.MISSING_INT}
        if is_listed(feature):
            assert found[f"{prefix}/lengths"].total == table.num_rows
            empty = sum(not any(v not in missing for v in values or []) for values in column)
        else:
            empty = sum(value in missing for value in column)
        assert found[f"{prefix}/present"].at(0) == empty
        assert found[f"{prefix}/present"].total == table.num_rows
    sales = [value for value in table["sales"].to_pylist() if value is not None]
    numbers = found["feature/sales/numbers"]
    expected, counts = np.unique(np.array(sales, "float32") + np.float32(0), return_counts=True)
    np.testing.assert_allclose(key_numbers(numbers.keys), expected, rtol=1e-3)
    np.testing.assert_array_equal(numbers.counts, counts)
    assert found["feature/item/values"].at(module.UNKNOWN_BIN) == sum(
        value == shop.UNKNOWN["int64"] for value in table["item"].to_pylist()
    )


def test_large_vocabulary_has_few_ordered_bins() -> None:
    schema = Schema((Categorical("item", dtype="int64"),), (Task("click"),))
    values = np.repeat(np.arange(3000), np.arange(3000, 0, -1) // 500 + 1)
    table = pa.table({"item": values})
    fitted = shop.fit(schema, [table])
    bins = value_bins(fitted, schema["item"], np.arange(2, 3002))
    assert (np.diff(bins) >= 0).all()
    np.testing.assert_array_equal(bins[:10], np.arange(10))
    names = [bin_name(fitted, schema["item"], number) for number in np.unique(bins)]
    assert names[10:] == [
        "values 11 to 20",
        "values 21 to 50",
        "values 51 to 100",
        "values 101 to 200",
        "values 201 to 500",
        "values 501 to 1,000",
        "values 1,001 to 2,000",
        "values 2,001 to 3,000",
    ]
    np.testing.assert_array_equal(np.bincount(bins)[10:], [10, 30, 50, 100, 300, 500, 1000, 1000])
    assert bin_name(fitted, schema["item"], module.UNKNOWN_BIN) == "unknown"


@pytest.mark.parametrize("request_", [None, "request"])
def test_a_split_counts_contexts_once_a_request(
    fitted: FittedFeatures, tmp_path: Path, request_: str | None
) -> None:
    table = shop.table(23, seed=6)
    requests = split_requests(table)
    groups = [pa.concat_tables(requests[i : i + 5]) for i in range(0, 23, 5)]
    split = DataSplit(shop.write(tmp_path / "rows.parquet", groups))
    done: list[int] = []
    found = of_split(split, fitted, request_, done.append)
    assert sum(done) == table.num_rows
    contexts = table
    if request_ is not None:
        contexts = pa.concat_tables([part.slice(0, 1) for part in requests])
    expected = {
        **of_features(fitted, contexts, "context"),
        **of_features(fitted, table, "candidate"),
    }
    features = {name: part for name, part in found.items() if name.startswith("feature/")}
    assert_equal(features, expected)
    click = [value for value in table["click"].to_pylist() if value is not None]
    bought = zip(table["bought"].to_pylist(), table["clicked"].to_pylist(), strict=True)
    bought = [label for label, known in bought if known and label is not None]
    assert_equal(
        {name: part for name, part in found.items() if name.startswith("task/")},
        {"task/click/labels": Counts.of(click), "task/buy/labels": Counts.of(bought)},
    )
