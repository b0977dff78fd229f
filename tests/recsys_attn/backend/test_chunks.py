"""Sums in chunks are those over all places, and no chunk is larger than allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.backend.chunks import in_chunks
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow

VALUES = np.random.default_rng(0).normal(size=(13, 3)).astype("float32")


def doubled(values: Any, count: Any, most: int, sizes: list[int] | None = None) -> Any:
    """The sum of all rows, and the rows times two."""

    def step(sums: Any, places: Any, counts: Any) -> Any:
        rows = ops.take(values, places, axis=0)
        if sizes is not None:
            sizes.append(places.shape[0])
        return (sums[0] + ops.sum(rows * counts[:, None], axis=0),), 2 * rows

    return in_chunks(step, (ops.zeros(3),), count, most)


@pytest.mark.parametrize("count", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("most", [1, 4, 5, 13, 17])
def test_every_place_counts_once(count: int, most: int) -> None:
    sizes: list[int] = []
    (total,), rows = doubled(VALUES[:count], count, most, sizes)
    assert_close(total, VALUES[:count].sum(axis=0))
    assert_close(rows, 2 * VALUES[:count])
    assert max(sizes) <= most


def test_a_graph_traced_once_serves_any_number_of_places() -> None:
    tf = tensorflow()

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def run(values: Any) -> Any:
        return doubled(values, tf.shape(values)[0], 5)

    for count in (0, 3, 10, 13):
        (total,), rows = run(tf.constant(VALUES[:count]))
        assert_close(total, VALUES[:count].sum(axis=0))
        assert_close(rows, 2 * VALUES[:count])
