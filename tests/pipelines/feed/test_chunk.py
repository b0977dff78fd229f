"""Chunks: transformed rows, their labels, and the borders of requests."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.feed.chunk import group_starts, transform
from recsys_attn.schema import Schema
from tests.support import shop
from tests.support.rounding import assert_rounded


def expect_same(one, other):
    assert one.blocks.keys() == other.blocks.keys()
    for name, block in one.blocks.items():
        assert_rounded(block, other.blocks[name], err_msg=name)
    np.testing.assert_array_equal(one.starts, other.starts)


def test_no_request_goes_on_in_the_next_row_group():
    table = pa.table({"request": [7, 7, 7, 3, 3, 5, 5]})
    groups = np.array([2, 3, 1, 1])
    np.testing.assert_array_equal(group_starts(table, "request", groups), [0, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(group_starts(table, None, groups), np.arange(8))


def test_rows_without_candidate_features_are_requests(fitted, table):
    context = tuple(f for f in fitted.schema.features if f.name in ("user", "age"))
    fitted = fitted.__class__(Schema(context, fitted.schema.tasks), fitted.transforms)
    chunk = transform(table, fitted, "request")
    assert len(chunk) == table.num_rows
    assert not chunk.layout.blocks_of("candidate")[:-1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.bool_(), pa.float32(), pa.float64()])
def test_labels_of_any_kind(fitted, table, kind):
    expected = transform(table, fitted, "request").blocks["labels"]
    position = table.column_names.index("click")
    other = table.set_column(position, "click", table["click"].cast(kind))
    np.testing.assert_array_equal(transform(other, fitted, "request").blocks["labels"], expected)
    clicks = [np.nan if v is None else v for v in table["click"].to_pylist()]
    np.testing.assert_array_equal(expected[:, 0], clicks)


def test_a_null_mask_hides_the_label(fitted, table):
    position = table.column_names.index("clicked")
    hidden = table.set_column(position, "clicked", pa.nulls(table.num_rows, pa.bool_()))
    labels = transform(hidden, fitted, "request").blocks["labels"]
    assert np.isnan(labels[:, 1]).all()
    assert not np.isnan(labels[:, 0]).all()


@pytest.mark.parametrize("how", ["whole columns", "inside lists"])
def test_strings_read_as_dictionaries_give_the_same_ids(fitted, how):
    table = shop.table(41, seed=9, unknown=True)
    expected = transform(table, fitted, "request")
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = {
            "whole columns": {pa.string(): pa.dictionary(pa.int32(), pa.string())},
            "inside lists": {
                pa.list_(pa.string()): pa.list_(pa.dictionary(pa.int32(), pa.string()))
            },
        }[how].get(column.type)
        if kind is not None:
            parts = [column.chunk(0)[:29], column.chunk(0)[29:]]
            encoded = pa.chunked_array([_encode(part) for part in parts])
            assert encoded.type.equals(kind)
            table = table.set_column(table.column_names.index(name), name, encoded)
    expect_same(transform(table, fitted, "request"), expected)


def _encode(column: pa.Array) -> pa.Array:
    if not pa.types.is_list(column.type):
        return column.dictionary_encode()
    column = pa.concat_arrays([column])
    return pa.ListArray.from_arrays(
        column.offsets, column.values.dictionary_encode(), mask=column.is_null()
    )
