"""JSON takes numbers of the dtypes that it has, and shows those of every other."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.errors import Unimplemented
from serving.rest.tensors import fill_inputs, numbers
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
