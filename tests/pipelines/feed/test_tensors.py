"""Blocks as tensors give the same inputs and labels as a batch's arrays."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from pipelines.feed import Feed
from pipelines.feed.tensors import block_specs, block_tensors


def test_tensors_equal_the_batch_arrays(fitted, split):
    feed = Feed(split, fitted, "request", 7, seed=3)
    batches = list(feed)
    layout = batches[0].layout

    @tf.function(input_signature=[block_specs(layout)])
    def inside(blocks):
        return layout.inputs(blocks), layout.labels(blocks)

    for batch in batches:
        found = inside(block_tensors(batch.blocks))
        wanted = batch.inputs, layout.labels(batch.blocks)
        for tensors, arrays in zip(found, wanted, strict=True):
            assert tensors.keys() == arrays.keys()
            for name, array in arrays.items():
                np.testing.assert_array_equal(tensors[name].numpy(), array, err_msg=name)
                assert tensors[name].dtype.name == array.dtype.name
    assert {name for batch in batches for name in batch.inputs} > {"user", "past_items", "tags"}
