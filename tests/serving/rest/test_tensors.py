"""JSON takes numbers of the dtypes that it has, and shows those of every other."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.errors import Unimplemented
from serving.rest.tensors import fill_inputs, numbers, shown
from tests.serving.stubs import predict

FOREIGN = ["bfloat16", "qint8", "quint16", "int4", "float8_e5m2", "float8_e4m3fn"]


@pytest.mark.parametrize("name", FOREIGN)
def test_numbers_of_any_dtype_are_shown(name: str) -> None:
    array = np.array([[0, 1], [2, 6]]).astype(tf.as_dtype(name).as_numpy_dtype)
    assert numbers(array) == [[0, 1], [2, 6]]


@pytest.mark.parametrize("name", [*FOREIGN, "complex64"])
def test_what_json_cannot_say_is_refused(name: str) -> None:
    info = meta_graph_pb2.TensorInfo(dtype=tf.as_dtype(name).as_datatype_enum)
    with pytest.raises(Unimplemented, match=f"Conversion of JSON Value: .1. to type: {name}$"):
        fill_inputs({"inputs": {"x": [1]}}, {"x": info}, predict(inputs={}))


def test_many_values_are_what_few_are() -> None:
    values = np.arange(10_001, dtype=np.float32) / 7
    few = [number for value in values for number in numbers(value[None])]
    assert numbers(values) == few
    assert numbers(values.reshape(73, 137)) == np.reshape(few, (73, 137)).tolist()
    info = meta_graph_pb2.TensorInfo(dtype=tf.float32.as_datatype_enum)
    request = predict(inputs={})
    fill_inputs({"inputs": {"x": values.tolist()}}, {"x": info}, request)
    np.testing.assert_array_equal(tf.make_ndarray(request.inputs["x"]), values)


def test_of_a_large_value_the_start_is_shown_and_no_more_is_written() -> None:
    assert shown({"a": [1, "b"]}) == '{"a": [1, "b"]}'
    value = {"a": [1] * 1_000_000}
    tracemalloc.start()
    text = shown(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert text == '{"a": [' + "1, " * 64 + "1..."
    assert peak < 100_000
