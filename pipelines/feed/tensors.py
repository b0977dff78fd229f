"""A batch's blocks as tensors; inside the graph `Layout` makes a model's inputs of them."""

from __future__ import annotations

import tensorflow as tf

from pipelines.feed.batch_layout import Arrays, Layout
from recsys_attn.schema import CANDIDATE_MASK

Tensors = dict[str, tf.Tensor]


def block_specs(layout: Layout) -> dict[str, tf.TensorSpec]:
    """Types and shapes of a batch's blocks; B and T are free."""
    specs = {CANDIDATE_MASK: tf.TensorSpec([None, None], tf.bool)}
    for block, width in layout.widths.items():
        axes = [None] if block in layout.blocks_of("context") else [None, None]
        kind = tf.int32 if block.endswith("ids") else tf.float32
        specs[block] = tf.TensorSpec([*axes, width], kind)
    return specs


def block_tensors(blocks: Arrays) -> Tensors:
    """The blocks on the default device; one copy each, whatever the number of features."""
    return {name: tf.convert_to_tensor(block) for name, block in blocks.items()}
