"""What a graph needs for its start alone, such as vocabularies, apart from the graph.

A session copies its whole graph when a signature runs first, and when a tower is added to it, and
all requests wait meanwhile: with two million strings in it that takes a second each time. Each
copy also takes as much memory as the tables that the strings fill.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow.graph import needed_by
from serving.runtimes.tensorflow.saved_model import definitions_of, init_operation

_LARGE = 10_000  # bytes


def take_start_values(meta: meta_graph_pb2.MetaGraphDef) -> dict[str, np.ndarray]:
    """Puts placeholders in the place of the large constants that nothing but the start needs.

    Returns:
        The constants by the names of their tensors: what the start is to be fed.
    """
    start, saver = init_operation(meta), meta.saver_def
    if start is None:
        return {}
    kept = [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    for definition in definitions_of(meta).values():
        kept += [info.name for info in definition.outputs.values()]
    own = needed_by(meta.graph_def, start) - needed_by(meta.graph_def, *kept)
    found = {}
    for node in meta.graph_def.node:
        if node.op == "Const" and node.name in own and node.ByteSize() > _LARGE:
            value = node.attr.pop("value").tensor
            node.op = "Placeholder"
            node.attr["shape"].CopyFrom(attr_value_pb2.AttrValue(shape=value.tensor_shape))
            found[f"{node.name}:0"] = tf.make_ndarray(value)
    return found
