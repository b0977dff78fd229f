"""The exported graph equals the training path on all kinds of raw values."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from pipelines.export.raw_inputs import raw_rows
from pipelines.features.graph import FeatureGraph, raw_dtype
from recsys_attn.schema import Numeric, is_listed
from serving.state.columns.missing import MISSING_INT
from tests.support import shop
from tests.support.rounding import assert_rounded

ROWS = 31
PADDING = {tf.string: "", tf.int64: MISSING_INT, tf.float32: np.nan}


@pytest.fixture(scope="module")
def graph(fitted):
    """The transforms in a graph whose sizes are all unknown, as in a signature."""
    specs = {
        f.name: tf.TensorSpec([None] * (1 + is_listed(f)), raw_dtype(f))
        for f in fitted.schema.features
    }
    return tf.function(FeatureGraph(fitted), input_signature=[specs], autograph=False)


def tensors(raw):
    return {name: tf.constant(values) for name, values in raw.items()}


def trained(fitted, table):
    return fitted.apply(table, "context") | fitted.apply(table, "candidate")


def assert_inputs(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert_rounded(found[name], values, err_msg=name)
        assert found[name].dtype == values.dtype


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_graph_equals_training_path(fitted, graph, rows, unknown):
    for seed in range(3):
        table = shop.table(rows, seed=seed, longest=3, unknown=unknown)
        expected = trained(fitted, table)
        assert_inputs(graph(tensors(raw_rows(fitted.schema, table))), expected)


def test_lists_may_be_padded_to_any_length(fitted, graph):
    table = shop.table(ROWS, seed=3)
    raw = tensors(raw_rows(fitted.schema, table))
    for feature in fitted.schema.features:
        if is_listed(feature):
            values = raw[feature.name]
            pad = PADDING[values.dtype]
            raw[feature.name] = tf.pad(values, [[0, 0], [0, 17]], constant_values=pad)
    assert_inputs(graph(raw), trained(fitted, table))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_an_aligned_list_may_be_shorter_than_the_others(fitted, graph, length):
    """What is cut off counts as missing, as if it were null in the column."""
    table = shop.table(ROWS, seed=3)
    raw = raw_rows(fitted.schema, table)
    raw["past_brands"] = raw["past_brands"][:, :length]
    items = [row or [] for row in table["past_items"].to_pylist()]
    brands = [row or [] for row in table["past_brands"].to_pylist()]
    cut = [(b[:length] + [None] * len(i))[: len(i)] for i, b in zip(items, brands, strict=True)]
    position = table.column_names.index("past_brands")
    table = table.set_column(position, "past_brands", pa.array(cut, pa.list_(pa.string())))
    position = table.column_names.index("past_items")
    table = table.set_column(position, "past_items", pa.array(items, pa.list_(pa.int64())))
    raw = {n: tf.constant(a, raw_dtype(fitted.schema[n]), a.shape) for n, a in raw.items()}
    assert_inputs(graph(raw), trained(fitted, table))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_missing(fitted, graph, value):
    raw = tensors(raw_rows(fitted.schema, shop.table(ROWS, seed=3)))
    for name in ("age", "sales", "rating", "price", "sizes"):
        raw[name] = tf.fill(tf.shape(raw[name]), tf.constant(value, tf.float32))
    found = graph(raw)
    for name in ("age", "sales", "rating", "price", "sizes"):
        is_number = isinstance(fitted.schema[name], Numeric)
        np.testing.assert_array_equal(
            found[name], np.full(found[name].shape, np.nan if is_number else 0)
        )
