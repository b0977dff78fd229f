"""A signature checks what it is given before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import InvalidArgument
from serving.common.request_trace import RequestTrace
from serving.encoding.codec import encode
from serving.models.signature import Signature
from tests.serving.traces import trace


def _definition(**shapes: tuple[int, ...] | None) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, shape in {**shapes, "out": None}.items():
        side = definition.outputs if name == "out" else definition.inputs
        side[name].dtype = tf.float32.as_datatype_enum
        side[name].tensor_shape.unknown_rank = shape is None
        for size in shape or ():
            side[name].tensor_shape.dim.add(size=size)
    return definition


def _product(
    inputs: Mapping[str, np.ndarray], outputs: Sequence[str], trace: RequestTrace
) -> dict[str, np.ndarray]:
    return {"out": inputs["x"] * inputs["y"]}


def _run(signature: Signature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return signature.run(inputs, ["out"], trace())


def test_an_input_with_a_default_may_be_left_out() -> None:
    definition = _definition(x=(-1,), y=())
    encode(np.float32(3), definition.defaults["y"])
    signature = Signature("scale", definition, _product)
    x = np.float32([1, 2])
    np.testing.assert_array_equal(_run(signature, {"x": x})["out"], [3, 6])
    both = {"x": x, "y": np.float32(5)}
    np.testing.assert_array_equal(_run(signature, both)["out"], [5, 10])
    with pytest.raises(InvalidArgument, match=r"Missing but required: \{x\}"):
        _run(signature, {"y": np.float32(5)})


def test_inputs_without_a_common_batch_axis_may_differ() -> None:
    signature = Signature("outer", _definition(x=(-1, 1), y=(-1,)), _product)
    inputs = {"x": np.ones((2, 1), np.float32), "y": np.float32([1, 2, 3])}
    out = _run(signature, inputs)
    assert out["out"].shape == (2, 3), "the output's shape is unknown, so nothing is a batch"


def test_an_input_of_unknown_rank_takes_any_shape() -> None:
    signature = Signature("any", _definition(x=None, y=None), _product)
    for shape in ((), (2,), (2, 3, 5)):
        ones = np.ones(shape, np.float32)
        assert _run(signature, {"x": ones, "y": ones})["out"].shape == shape
