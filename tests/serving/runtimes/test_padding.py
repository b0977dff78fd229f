"""Requests are padded to few shapes, and their own results come back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.padding import Padding, padded, paddings


def _definition(**shapes: tuple[int | None, ...]) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, shape in shapes.items():
        definition.inputs[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return definition


def test_sizes_are_few_and_not_much_larger() -> None:
    sizes = [padded(((size,),))[0][0] for size in range(2000)]
    assert sizes[0] == 1, "an empty axis has a shape of its own otherwise"
    for size, larger in enumerate(sizes):
        assert size <= larger <= max(1, size * 17 / 16)
        assert padded(((larger,),))[0][0] == larger
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 32 + 16 * 6


@pytest.mark.parametrize(
    ("rows", "candidates", "events"), [*itertools.product([0, 1, 33], repeat=3)]
)
def test_a_request_comes_back_as_it_was(rows: int, candidates: int, events: int) -> None:
    rank = _definition(user=(None,), seen=(None, None), price=(None, None))
    padding = Padding(rank, "price")
    rng = np.random.default_rng(0)
    inputs = {
        "user": np.full(rows, b"u", object),
        "seen": np.full((rows, events), b"i", object),
        "price": rng.random((rows, candidates)).astype("float32"),
    }
    shapes = padded(padding.shapes(inputs))
    filled = padding.filled(inputs, shapes)
    assert {len(array) for array in filled.values()} == {34 if rows == 33 else 1}
    for name, array in inputs.items():
        own = tuple(slice(size) for size in array.shape)
        np.testing.assert_array_equal(filled[name][own], array)
    added = np.ones(filled["price"].shape, bool)
    added[:rows, :candidates] = False
    assert np.isnan(filled["price"][added]).all()
    assert np.count_nonzero(filled["seen"] == b"i") == rows * events
    results = {"click": filled["price"], "both": np.stack([filled["price"]] * 2, -1)}
    found = padding.own(results, inputs)
    np.testing.assert_array_equal(found["click"], inputs["price"])
    assert found["both"].shape == (rows, candidates, 2)


def test_what_fits_is_not_copied() -> None:
    padding = Padding(_definition(price=(None,)))
    inputs = {"price": np.ones(8, "float32")}
    assert padding.filled(inputs, padded(padding.shapes(inputs)))["price"] is inputs["price"]


def test_candidates_are_what_has_one_axis_more() -> None:
    definitions = {
        "serving_default": _definition(age=(None,), seen=(None, None), price=(None,)),
        "rank": _definition(age=(None,), seen=(None, None), price=(None, None)),
        "classify": _definition(inputs=(None,)),
    }
    found = paddings(definitions)
    assert set(found) == {"serving_default", "rank"}
    inputs = {"age": np.zeros(2), "seen": np.zeros((2, 5)), "price": np.zeros((2, 3))}
    results = {"click": np.zeros((4, 4))}
    assert found["rank"].own(results, inputs)["click"].shape == (2, 3)
    rows = {**inputs, "price": np.zeros(2)}
    assert found["serving_default"].own({"click": np.zeros(4)}, rows)["click"].shape == (2,)
    assert paddings({"classify": definitions["classify"]}) == {}
