"""A batch's blocks as tensors; in the graph, `Layout` turns them into a model's inputs."""

from __future__ import annotations

import tensorflow as tf

from pipelines.feed.batch_layout import Arrays, Layout
from recsys_attn.schema import CANDIDATE_MASK

Tensors = dict[str, tf.Tensor]


def block_specs(layout: Layout) -> dict[str, tf.TensorSpec]:
    """Types and shapes of a batch's blocks, for any B and T."""
    specs = {CANDIDATE_MASK: tf.TensorSpec([None, None], tf.bool)}
    for block, width in layout.widths.items():
        axes = [None] if block in layout.blocks_of("context") else [None, None]
        kind = tf.int32 if block.endswith("ids") else tf.float32
        specs[block] = tf.TensorSpec([*axes, width], kind)
    return specs


def block_tensors(blocks: Arrays) -> Tensors:
    """The blocks on the default device, with one copy each."""
    return {name: tf.convert_to_tensor(block) for name, block in blocks.items()}
