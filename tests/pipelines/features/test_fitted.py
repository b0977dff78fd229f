"""The training path: raw columns to model inputs, against a slow reference row by row."""

import bisect
import json

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.features.fitted import raw_column
from recsys_attn.schema import Numeric, Sequence, is_listed
from serving.state.columns.missing import MISSING_INT
from tests.support import shop


def reference_value(state, value):
    """The id or number of one raw value, from the transform's own saved state."""
    if value in (None, "", MISSING_INT):
        return np.nan if state["kind"] == "numeric" else 0
    if state["kind"] == "vocabulary":
        known = state["values"].to_pylist()
        return known.index(value) + 2 if value in known else 1
    if state["kind"] == "hash":
        return 2 + int(tf.strings.to_hash_bucket_fast(str(value), state["buckets"]))
    if state["kind"] == "quantile":
        return 2 + bisect.bisect_right(state["boundaries"], value)
    for step in state["steps"]:
        if step == "log1p":
            value = np.sign(value) * np.log1p(abs(value))
        else:
            value = (value - state["mean"]) / state["deviation"]
    return value


def reference_inputs(fitted, table, side):
    """`FittedFeatures.apply`, one row, one value at a time."""
    states = {name: transform.state() for name, transform in fitted.transforms.items()}
    inputs = {feature.name: [] for feature in fitted.schema.features if feature.side == side}
    for row in table.to_pylist():
        values = {}
        for name in inputs:
            state, feature = states[fitted.schema.table_owner(name)], fitted.schema[name]
            found = row[name] if is_listed(feature) else [row[name]]
            values[name] = [reference_value(state, value) for value in found or []]
        for name in inputs:
            feature = fitted.schema[name]
            if not is_listed(feature):
                inputs[name].append(values[name][0])
                continue
            aligned = [name]
            if isinstance(feature, Sequence):
                aligned = [s.name for s in fitted.schema.histories[feature.history]]
            events = zip(*[values[other] for other in aligned], strict=True)
            kept = [event[aligned.index(name)] for event in events if any(event)]
            kept = kept[-feature.max_length :]
            inputs[name].append(kept + [0] * (feature.max_length - len(kept)))
    return inputs


@pytest.mark.parametrize("side", ["context", "candidate"])
def test_apply_equals_the_reference(side):
    fitted = shop.fitted()
    table = shop.table(37, seed=2, unknown=True)
    inputs = fitted.apply(table, side)
    expected = reference_inputs(fitted, table, side)
    assert inputs.keys() == expected.keys()
    for name, values in expected.items():
        is_number = isinstance(fitted.schema[name], Numeric)
        assert inputs[name].dtype == ("float32" if is_number else "int32")
        np.testing.assert_allclose(inputs[name], values, rtol=1e-4 * is_number, err_msg=name)
        kinds = {"missing"} if np.isnan(inputs[name]).any() else set()
        kinds |= {{0: "missing", 1: "unknown"}.get(i, "known") for i in np.unique(inputs[name])}
        assert "missing" in kinds, name
        assert "known" in kinds, name


def test_saved_transforms_are_the_same(tmp_path):
    fitted = shop.fitted()
    fitted.save(tmp_path)
    loaded = FittedFeatures.load(tmp_path)
    assert loaded.schema == fitted.schema
    table = shop.table(23, seed=4, unknown=True)
    for side in ("context", "candidate"):
        expected = fitted.apply(table, side)
        for name, values in loaded.apply(table, side).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
    json.loads((tmp_path / "features.json").read_text())  # plain JSON, no NaN
    loaded.save(tmp_path)
    assert FittedFeatures.load(tmp_path).schema == fitted.schema


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_vocabulary_is_named(tmp_path, damage):
    shop.fitted().save(tmp_path)
    path = sorted(tmp_path.glob("vocabulary_*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:40]) if damage == "cut" else path.unlink()
    with pytest.raises(PipelineError, match=path.name):
        FittedFeatures.load(tmp_path)


def test_sequences_of_one_history_must_be_aligned():
    table = shop.table(1, seed=2, longest=1)
    for name, events in (("past_items", [7, 13, 7]), ("past_brands", ["a", "b"])):
        table = table.set_column(table.column_names.index(name), name, pa.array([events]))
    message = r"'past_items' has 3 events and 'past_brands' 2 in row 0 of this batch\. Align them"
    with pytest.raises(PipelineError, match=message):
        shop.fitted().apply(table, "context")


def test_features_that_a_model_leaves_out():
    fitted = shop.fitted().without(("age", "past_brands", "searches"))
    assert {f.name for f in shop.SCHEMA.features} - {f.name for f in fitted.schema.features} == {
        "age",
        "past_brands",
        "searches",
    }
    inputs = fitted.apply(shop.table(3, seed=2).drop_columns(["age", "searches"]), "context")
    assert "age" not in inputs
    assert inputs["past_items"].shape[1] == 5


def test_a_column_has_its_features_type():
    table = pa.table(
        {
            "small": pa.chunked_array([pa.array([1], pa.int8()), pa.array([None], pa.int8())]),
            "large": pa.array(["a", "b"], pa.large_string()),
            "coded": pa.array(["a", "b"]).dictionary_encode(),
            "nothing": pa.nulls(2),
            "lists": pa.array([[1], None], pa.large_list(pa.field("element", pa.int16()))),
        }
    )
    assert raw_column(table, "small", "int64").to_pylist() == [1, None]
    assert raw_column(table, "small", "float32").type == pa.float32()
    assert raw_column(table, "large", "string").type == pa.string()
    assert raw_column(table, "coded", "string").to_pylist() == ["a", "b"]
    for dtype, listed in (("string", False), ("float32", False), ("int64", True)):
        assert raw_column(table, "nothing", dtype, listed).null_count == 2
    assert raw_column(table, "lists", "int64", True).type == pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("values", "dtype", "listed"),
    [([0.5], "int64", False), (["a"], "int64", False), (["a"], "string", True)],
)
def test_column_of_wrong_type_is_an_error(values, dtype, listed):
    with pytest.raises(PipelineError, match=r"Column 'x': expected values of type .* Received"):
        raw_column(pa.table({"x": values}), "x", dtype, listed)
