"""Numbers and nulls between JSON and arrays."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import InvalidArgument, Unimplemented
from serving.encoding.features import TensorSpec
from serving.encoding.rank_columns import MAX_PADDED_ELEMENTS
from serving.rest.predict_bodies import excerpt, numbers, read_inputs

FOREIGN = ["bfloat16", "qint8", "quint16", "int4", "float8_e5m2", "float8_e4m3fn"]


@pytest.mark.parametrize("name", FOREIGN)
def test_numbers_of_any_dtype_are_written(name: str) -> None:
    array = np.array([[0, 1], [2, 6]]).astype(tf.as_dtype(name).as_numpy_dtype)
    assert numbers(array) == [[0, 1], [2, 6]]


@pytest.mark.parametrize("name", [*FOREIGN, "complex64"])
def test_dtype_without_json_form_is_rejected(name: str) -> None:
    info = meta_graph_pb2.TensorInfo(dtype=tf.as_dtype(name).as_datatype_enum)
    with pytest.raises(Unimplemented, match=f"Conversion of JSON Value: .1. to type: {name}$"):
        read_inputs({"inputs": {"x": [1]}}, {"x": TensorSpec.from_proto(info)})


def _filled(value: object, dtype: tf.DType, *axes: int | None, takes_missing: bool = True) -> Any:
    shape = tf.TensorShape(axes).as_proto()
    info = meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum, tensor_shape=shape)
    spec = TensorSpec.from_proto(info)
    return read_inputs({"inputs": {"x": value}}, {"x": spec}, takes_missing)["x"].tolist()


@pytest.mark.parametrize("form", ["inputs", "instances"])
def test_optional_inputs_may_be_left_out(form: str) -> None:
    shape = tf.TensorShape([None]).as_proto()
    info = meta_graph_pb2.TensorInfo(dtype=tf.int64.as_datatype_enum, tensor_shape=shape)
    declared = dict.fromkeys(("x", "user"), TensorSpec.from_proto(info))

    def read(**given: int) -> set[str]:
        columns = {name: [value] for name, value in given.items()}
        document = {form: columns if form == "inputs" else [given]}
        return set(read_inputs(document, declared, optional=["user"]))

    assert read(x=1) == {"x"}
    assert read(x=1, user=2) == {"x", "user"}
    with pytest.raises(InvalidArgument, match="x"):
        read(user=2)


@pytest.mark.parametrize(
    ("value", "dtype", "axes", "expected"),
    [
        (["a", None], tf.string, (None,), [b"a", b""]),
        ([None, 7], tf.int64, (None,), [-(2**63), 7]),
        ([["a", None]], tf.string, (None, None), [[b"a", b""]]),
        ([None, ["a", "b"]], tf.string, (None, None), [[b"", b""], [b"a", b"b"]]),
        ([["a", "b"], None], tf.string, (None, None), [[b"a", b"b"], [b"", b""]]),
        ([None, None], tf.int64, (None, None), [[-(2**63)], [-(2**63)]]),
        ([None, []], tf.string, (None, None), [[], []]),
        ([None], tf.int64, (None, 3), [[-(2**63)] * 3]),
        ([[["a", "b"], None]], tf.string, (1, None, None), [[[b"a", b"b"], [b"", b""]]]),
        ([[["a"], ["b"]], None], tf.string, (None,) * 3, [[[b"a"], [b"b"]], [[b""], [b""]]]),
    ],
)
def test_null_is_missing(
    value: object, dtype: tf.DType, axes: tuple[int | None, ...], expected: object
) -> None:
    assert _filled(value, dtype, *axes) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([["a"], ["b", "c"]], "unexpected size: 2 at level: 1 expected size: 1. All lists of a"),
        (["a", ["b"]], "unexpected level: 1 expected < 1"),
        ([["a"], "b"], "found at incorrect level: 2"),
        ([1], "JSON Value: 1 Type: Number is not of expected type: string"),
        ([{"b64": "?"}], "Unable to base64 decode"),
        ([{"a": 1}], "not formatted correctly for base64 data"),
        ([[[["a"]]], [["b"]]], "found at incorrect level"),
    ],
)
def test_error_names_the_feature(value: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match="'x'") as raised:
        _filled(value, tf.string, None, None)
    assert words in str(raised.value)


def test_error_names_the_row_with_other_keys() -> None:
    info = meta_graph_pb2.TensorInfo(dtype=tf.int64.as_datatype_enum)
    declared = dict.fromkeys(("x", "user"), TensorSpec.from_proto(info))
    with pytest.raises(InvalidArgument, match=r"element: 1 .*Missing: x\. Unknown: y$"):
        read_inputs({"instances": [{"x": 1, "user": 2}, {"user": 2, "y": 3}]}, declared)


def test_null_float_is_nan() -> None:
    np.testing.assert_array_equal(_filled([None, 1.5], tf.float32, None), [np.nan, 1.5])


@pytest.mark.parametrize("value", [None, [None], [[None]], [None, ["a"]], [["a"], None]])
def test_model_without_missing_values_rejects_null(value: object) -> None:
    with pytest.raises(InvalidArgument, match="Null is a missing value, and this model has none"):
        _filled(value, tf.string, None, None, takes_missing=False)


def test_dtype_without_missing_value_rejects_null() -> None:
    with pytest.raises(InvalidArgument, match="null Type: Null is not of expected type: bool"):
        _filled([None, True], tf.bool, None)


def test_null_column_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match=r"All of 'x' is null\. Expected a list with"):
        _filled(None, tf.string, None)


def test_nulls_that_fill_a_huge_tensor_are_rejected() -> None:
    length = 3000
    nulls = [None] * (MAX_PADDED_ELEMENTS // length + 1)
    with pytest.raises(InvalidArgument, match="in place of lists of 3000 values are too many"):
        _filled([["a"] * length, *nulls], tf.string, None, None)
    for deep in ([None, "a"], ["a", [None]]):  # of other depths: an error, as without null
        with pytest.raises(InvalidArgument):
            _filled([["a"], deep], tf.string, None, None)


def test_error_shows_the_start_of_a_large_value() -> None:
    assert excerpt({"a": [1, "b"]}) == '{"a": [1, "b"]}'
    value = {"a": [1] * 1_000_000}
    tracemalloc.start()
    text = excerpt(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert text == '{"a": [' + "1, " * 64 + "1..."
    assert peak < 100_000
