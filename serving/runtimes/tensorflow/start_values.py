"""Removes the constants that only the start of a graph needs, such as vocabularies.

A session copies its whole graph at the first run of each signature, and when a tower is added.
With two million strings in the graph each copy takes a second, during which all requests wait,
and as much memory as the tables that the strings fill.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow.saved_model import definitions_of, init_operation
from serving.runtimes.tensorflow.subgraph import needed_by

_LARGE = 10_000  # bytes


def take_start_values(meta: meta_graph_pb2.MetaGraphDef) -> dict[str, np.ndarray]:
    """Replaces the large constants that only the start needs by placeholders.

    Returns:
        The constants by tensor name, to feed the start with.
    """
    start, saver = init_operation(meta), meta.saver_def
    if start is None:
        return {}
    roots = [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    for definition in definitions_of(meta).values():
        roots += [info.name for info in definition.outputs.values()]
    start_only = needed_by(meta.graph_def, start) - needed_by(meta.graph_def, *roots)
    constants = {}
    for node in meta.graph_def.node:
        if node.op == "Const" and node.name in start_only and node.ByteSize() > _LARGE:
            value = node.attr.pop("value").tensor
            node.op = "Placeholder"
            node.attr["shape"].CopyFrom(attr_value_pb2.AttrValue(shape=value.tensor_shape))
            constants[f"{node.name}:0"] = tf.make_ndarray(value)
    return constants
