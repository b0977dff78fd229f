"""Requests are padded to few sizes, and their own results come back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow.padding import RankPadding, padded_sizes, rank_padding


def _definition(**shapes: tuple[int | None, ...]) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, shape in shapes.items():
        definition.inputs[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return definition


def test_padded_sizes_are_few_and_at_most_a_sixteenth_larger() -> None:
    sizes = [padded_sizes((size,))[0] for size in range(2000)]
    assert sizes[0] == 1, "an empty axis would be a shape of its own"
    for size, larger in enumerate(sizes):
        assert size <= larger <= max(1, size * 17 / 16)
        assert padded_sizes((larger,)) == (larger,)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 32 + 16 * 6


@pytest.mark.parametrize(
    ("rows", "candidates", "events"), [*itertools.product([0, 1, 33], repeat=3)]
)
def test_padding_is_missing_values_and_is_removed(rows: int, candidates: int, events: int) -> None:
    rank = _definition(user=(None,), seen=(None, None), price=(None, None))
    padding = RankPadding(rank, frozenset({"price"}))
    rng = np.random.default_rng(0)
    inputs = {
        "user": np.full(rows, b"u", object),
        "seen": np.full((rows, events), b"i", object),
        "price": rng.random((rows, candidates)).astype("float32"),
    }
    sizes = padding.sizes(inputs)
    assert sizes == (rows, candidates)
    padded = padding.pad(inputs, padded_sizes(sizes))
    assert {len(array) for array in padded.values()} == {34 if rows == 33 else 1}
    assert padded["seen"].shape[1] == events
    for name, array in inputs.items():
        own = tuple(slice(size) for size in array.shape)
        np.testing.assert_array_equal(padded[name][own], array)
    added = np.ones(padded["price"].shape, bool)
    added[:rows, :candidates] = False
    assert np.isnan(padded["price"][added]).all()
    assert np.count_nonzero(padded["seen"] == b"i") == rows * events
    results = {"click": padded["price"], "both": np.stack([padded["price"]] * 2, -1)}
    found = padding.unpad(results, sizes)
    np.testing.assert_array_equal(found["click"], inputs["price"])
    assert found["both"].shape == (rows, candidates, 2)


@pytest.mark.parametrize(
    ("more", "takes_lists"),
    [({}, False), ({"seen": (None, None)}, True), ({"tags": (None, None, None)}, True)],
)
def test_candidates_and_lists_have_one_axis_more(
    more: dict[str, tuple[None, ...]], takes_lists: bool
) -> None:
    rank = _definition(age=(None,), price=(None, None), **more)
    rows = _definition(age=(None,), price=(None,), **dict.fromkeys(more, (None, None)))
    padding = rank_padding({"serving_default": rows, "rank": rank})
    assert padding is not None
    assert padding.takes_lists is takes_lists
    assert padding.sizes({"age": np.zeros(2), "price": np.zeros((2, 3))}) == (2, 3)
    assert rank_padding({"serving_default": rows}) is None
    assert rank_padding({"serving_default": rows, "rank": rows}) is None
