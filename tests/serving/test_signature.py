"""A signature checks what it is given before its function is called."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.codec import encode
from serving.errors import InvalidArgument, NotFound, ServingError
from serving.signature import Signature


def _definition(**shapes: tuple[int, ...] | None) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, shape in {**shapes, "out": None}.items():
        side = definition.outputs if name == "out" else definition.inputs
        side[name].dtype = tf.float32.as_datatype_enum
        side[name].tensor_shape.unknown_rank = shape is None
        for size in shape or ():
            side[name].tensor_shape.dim.add(size=size)
    return definition


def _product(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"out": x * y}


def test_an_input_with_a_default_may_be_left_out() -> None:
    definition = _definition(x=(-1,), y=())
    definition.defaults["y"].CopyFrom(encode(np.float32(3)))
    signature = Signature("scale", definition, _product)
    x = np.float32([1, 2])
    np.testing.assert_array_equal(signature.run({"x": x}, ["out"])["out"], [3, 6])
    both = {"x": x, "y": np.float32(5)}
    np.testing.assert_array_equal(signature.run(both, ["out"])["out"], [5, 10])
    with pytest.raises(InvalidArgument, match=r"Missing but required: \{x\}"):
        signature.run({"y": np.float32(5)}, ["out"])


def test_inputs_without_a_common_batch_axis_may_differ() -> None:
    signature = Signature("outer", _definition(x=(-1, 1), y=(-1,)), _product)
    out = signature.run({"x": np.ones((2, 1), np.float32), "y": np.float32([1, 2, 3])}, ["out"])
    assert out["out"].shape == (2, 3), "the output's shape is unknown, so nothing is a batch"


def test_an_input_of_unknown_rank_takes_any_shape() -> None:
    signature = Signature("any", _definition(x=None, y=None), _product)
    for shape in ((), (2,), (2, 3, 5)):
        ones = np.ones(shape, np.float32)
        assert signature.run({"x": ones, "y": ones}, ["out"])["out"].shape == shape


def test_tensorflow_errors_keep_their_code() -> None:
    def fail(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        raise tf.errors.NotFoundError(None, None, "no such table")

    with pytest.raises(NotFound, match="no such table") as raised:
        Signature("fail", _definition(), fail).run({}, ["out"])
    assert isinstance(raised.value, ServingError)
