"""Requests are padded to few shapes, and their own results come back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow.padding import Padding, padded, paddings


def _definition(**shapes: tuple[int | None, ...]) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, shape in shapes.items():
        definition.inputs[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return definition


def test_sizes_are_few_and_not_much_larger() -> None:
    sizes = [padded((size,))[0] for size in range(2000)]
    assert sizes[0] == 1, "an empty axis has a shape of its own otherwise"
    for size, larger in enumerate(sizes):
        assert size <= larger <= max(1, size * 17 / 16)
        assert padded((larger,)) == (larger,)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 32 + 16 * 6


def test_lists_have_an_axis_more_than_their_rows_or_candidates() -> None:
    values = {"user": (None,), "price": (None,)}
    rank = _definition(user=(None,), price=(None, None))
    assert not Padding(_definition(**values)).takes_lists
    assert not Padding(rank, frozenset({"price"})).takes_lists
    assert Padding(_definition(**values, seen=(None, None))).takes_lists
    rank.MergeFrom(_definition(tags=(None, None, None)))
    assert Padding(rank, frozenset({"price", "tags"})).takes_lists


@pytest.mark.parametrize(
    ("rows", "candidates", "events"), [*itertools.product([0, 1, 33], repeat=3)]
)
def test_a_request_comes_back_as_it_was(rows: int, candidates: int, events: int) -> None:
    """With rows and candidates added that have no value, and its lists as long as they were."""
    rank = _definition(user=(None,), seen=(None, None), price=(None, None))
    padding = Padding(rank, frozenset({"price"}))
    rng = np.random.default_rng(0)
    inputs = {
        "user": np.full(rows, b"u", object),
        "seen": np.full((rows, events), b"i", object),
        "price": rng.random((rows, candidates)).astype("float32"),
    }
    sizes = padding.sizes(inputs)
    assert sizes == (rows, candidates)
    filled = padding.filled(inputs, padded(sizes))
    assert {len(array) for array in filled.values()} == {34 if rows == 33 else 1}
    assert filled["seen"].shape[1] == events
    for name, array in inputs.items():
        own = tuple(slice(size) for size in array.shape)
        np.testing.assert_array_equal(filled[name][own], array)
    added = np.ones(filled["price"].shape, bool)
    added[:rows, :candidates] = False
    assert np.isnan(filled["price"][added]).all()
    assert np.count_nonzero(filled["seen"] == b"i") == rows * events
    results = {"click": filled["price"], "both": np.stack([filled["price"]] * 2, -1)}
    found = padding.own(results, sizes)
    np.testing.assert_array_equal(found["click"], inputs["price"])
    assert found["both"].shape == (rows, candidates, 2)


def test_a_request_without_values_has_longer_lists() -> None:
    rank = _definition(user=(None,), seen=(None, None), tags=(None, None, None))
    inputs = {
        "user": np.full(2, b"u", object),
        "seen": np.ones((2, 3), "int64"),
        "tags": np.ones((2, 5, 7), "float32"),
    }
    found = Padding(rank, frozenset({"tags"})).missing(inputs)
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"user": (2,), "seen": (2, 4), "tags": (2, 5, 8)}
    assert (found["user"] == b"").all()
    assert (found["seen"] == -(2**63)).all()
    assert np.isnan(found["tags"]).all()


def test_what_fits_is_not_copied() -> None:
    padding = Padding(_definition(price=(None,)))
    inputs = {"price": np.ones(8, "float32")}
    assert padding.filled(inputs, padded(padding.sizes(inputs)))["price"] is inputs["price"]


def test_candidates_are_what_has_one_axis_more() -> None:
    definitions = {
        "serving_default": _definition(age=(None,), seen=(None, None), price=(None,)),
        "rank": _definition(age=(None,), seen=(None, None), price=(None, None)),
        "classify": _definition(inputs=(None,)),
    }
    found = paddings(definitions)
    assert set(found) == {"serving_default", "rank"}
    inputs = {"age": np.zeros(2), "seen": np.zeros((2, 5)), "price": np.zeros((2, 3))}
    assert found["rank"].sizes(inputs) == (2, 3)
    assert found["serving_default"].sizes({**inputs, "price": np.zeros(2)}) == (2,)
    assert paddings({"classify": definitions["classify"]}) == {}
