"""Several features of one column: as if each had a column of its own, in training and the graph."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import tensorflow as tf

from pipelines.engines import LOCAL
from pipelines.export.raw_inputs import raw_rows
from pipelines.export.tf_examples import example_rows, parse_examples
from pipelines.features.continued import earlier_transform
from pipelines.features.fit import fit, fit_split
from pipelines.features.fit_warnings import coarse_features, empty_features
from pipelines.features.graph import FeatureGraph
from pipelines.storage.dataset import DataSplit
from recsys_attn.id_transforms import Hash, Quantile
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence
from serving.state.columns.missing import MISSING_INT
from tests.support import shop

# Several of each column of integers, floats, texts, and of lists of them.
COLUMNS = {
    "city_number": "city",
    "city_bucket": "city",
    "item_hash": "item",
    "price_number": "price",
    "brand_all": "brand",
    "tags_all": "tags",
    "past_hash": "past_items",
    "past_number": "past_items",
}


def schema(columns):
    def of(kind, name, *arguments, **options):
        return kind(name, *arguments, **options, column=columns.get(name))

    features = (
        of(Numeric, "city_number", "context", transform=("log1p", "standardise")),
        of(Categorical, "city_bucket", "context", dtype="float32", transform=Quantile(3)),
        of(Categorical, "item_hash", dtype="int64", transform=Hash(3)),
        of(Numeric, "price_number"),
        of(Categorical, "brand_all"),
        of(Categorical, "tags_all", multivalued=True, max_length=7),
        of(Sequence, "past_hash", "item_hash", dtype="int64", max_length=5),
        of(Sequence, "past_number", dtype="float32", transform=Quantile(3), max_length=5),
    )
    return Schema((*shop.SCHEMA.features, *features), shop.SCHEMA.tasks)


ONCE, TWICE = schema(COLUMNS), schema({})


def as_floats(column):
    """Integers as `ingest` rounds them."""
    if pa.types.is_list(column.type):
        return pa.array([None if of is None else as_floats(pa.array(of, pa.int64())).to_pylist()
                         for of in column.to_pylist()], pa.list_(pa.float32()))  # fmt: skip
    present = pc.if_else(pc.equal(column, MISSING_INT), pa.scalar(None, column.type), column)
    return present.cast(pa.float64(), safe=False).cast(pa.float32(), safe=False)


def twice(table):
    """The rows with a column for each feature."""
    for name, column in COLUMNS.items():
        values = table[column].combine_chunks()
        is_float = TWICE[name].dtype == "float32" and column != "price"
        table = table.append_column(name, as_floats(values) if is_float else values)
    return table


@pytest.fixture(scope="module")
def tables():
    return [shop.table(41, seed=seed, unknown=seed > 0) for seed in range(2)]


@pytest.fixture(scope="module")
def once(tables):
    return fit(ONCE, tables[:1])


def inputs_of(fitted, table):
    return fitted.apply(table, "context") | fitted.apply(table, "candidate")


def test_inputs_are_those_of_columns_written_twice(once, tables):
    other = fit(TWICE, [twice(tables[0])])
    for table in (tables[0], tables[1].slice(5)):
        found, expected = inputs_of(once, table), inputs_of(other, twice(table))
        assert found.keys() == expected.keys() > COLUMNS.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert np.isnan(found["city_number"]).any()
    assert len(np.unique(found["city_number"])) > 3


def test_requests_have_each_column_once(once, tables):
    raw = once.raw_schema
    assert {f.name for f in raw.features} == {f.name for f in shop.SCHEMA.features}
    graph = FeatureGraph(once)
    for table in tables:
        sent = raw_rows(raw, table)
        parsed = parse_examples(raw.features, tf.constant(example_rows(raw, table)["inputs"]))
        expected = inputs_of(once, table)
        for tensors in ({n: tf.constant(values) for n, values in sent.items()}, parsed):
            found = graph(tensors)
            assert found.keys() == expected.keys()
            for name, values in expected.items():
                np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_splits_are_read_by_columns(once, tables, tmp_path):
    split = DataSplit(shop.write(tmp_path / "rows.parquet", tables[:1]))
    fitted = fit_split(ONCE, split, LOCAL, lambda rows: None)
    found, expected = inputs_of(fitted, tables[1]), inputs_of(once, tables[1])
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert not {*empty_features(ONCE, split), *coarse_features(ONCE, split)} & COLUMNS.keys()


def test_saved_features_keep_their_columns(once, tables, tmp_path):
    once.save(tmp_path)
    loaded = type(once).load(tmp_path)
    assert loaded.schema == once.schema
    for name, values in inputs_of(once, tables[1]).items():
        np.testing.assert_array_equal(inputs_of(loaded, tables[1])[name], values)


def test_transforms_of_another_column_are_not_continued(once):
    assert earlier_transform(ONCE["item_hash"], once) is not None
    assert earlier_transform(TWICE["item_hash"], once) is None
