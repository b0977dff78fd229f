"""A dense part of a TensorFlow graph as an ONNX model; needs the extra `onnx`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from serving.common.errors import Unimplemented

OPSET = 17
_ONE_AT_A_TIME = threading.Lock()  # tf2onnx keeps what it counts in its modules
_SELECT = "SelectV2"
Shape = tuple[int | None, ...]


def convertible() -> frozenset[str]:
    """Types of TensorFlow's operations that tf2onnx converts to ONNX's own."""
    from tf2onnx.handler import tf_op
    from tf2onnx.tfonnx import process_tf_graph  # importing it registers them

    if not process_tf_graph:
        raise Unimplemented("tf2onnx has no converter.")
    found = frozenset(op for version in tf_op.get_opsets()[""] for op in version)
    return found - {"Select"}  # TensorFlow 1's, which does not broadcast as others do


def converted(
    graph: graph_pb2.GraphDef,
    constants: Mapping[str, np.ndarray],
    inputs: Mapping[str, tuple[tf.DType, Shape]],
    outputs: Sequence[str],
) -> bytes:
    """The ONNX model of a graph; inputs and outputs keep their tensors' names.

    Args:
        graph: Nodes without their inputs from outside.
        constants: Values of tensors that are no nodes of the graph.
        inputs: Other such tensors, which the model takes.
        outputs: Tensors that it gives.

    Raises:
        Unimplemented: tf2onnx does not convert it.
    """
    import tf2onnx

    with _ONE_AT_A_TIME:
        closed, renamed = _closed(graph, constants, inputs)
        loud = logging.getLogger("tf2onnx")
        level, loud.level = loud.level, logging.CRITICAL
        try:
            given = [renamed[name] for name in inputs]
            with tf.Graph().as_default():
                optimised = tf2onnx.tf_loader.tf_optimize(given, list(outputs), closed)
            model, _ = tf2onnx.convert._convert_common(
                optimised,
                name="tower",
                input_names=given,
                output_names=list(outputs),
                opset=OPSET,
                custom_op_handlers={_SELECT: (_where, [])},
                optimizers={},  # ONNX Runtime has its own; these take most of the time
                tensors_to_rename={renamed[name]: name for name in inputs},
            )
        except Exception as error:  # whatever a converter meets
            raise Unimplemented(f"{type(error).__name__}: {error}") from error
        finally:
            loud.level = level
        content: bytes = model.SerializeToString()
        return content


def _where(graph: Any, node: Any, name: str, arguments: Any) -> None:
    """ONNX has TensorFlow's operation, by another name.

    tf2onnx multiplies and adds instead: a missing value (NaN) that is not chosen makes NaN of what
    is.
    """
    node.type = "Where"


def _closed(
    graph: graph_pb2.GraphDef,
    constants: Mapping[str, np.ndarray],
    inputs: Mapping[str, tuple[tf.DType, Shape]],
) -> tuple[graph_pb2.GraphDef, dict[str, str]]:
    """The graph with placeholders and constants for what comes from outside, and their names."""
    with tf.Graph().as_default() as given:
        renamed = {
            name: tf.compat.v1.placeholder(dtype, shape, f"given_{i}").name
            for i, (name, (dtype, shape)) in enumerate(inputs.items())
        }
        for i, (name, value) in enumerate(constants.items()):
            renamed[name] = tf.constant(value, name=f"weight_{i}").name
    closed = given.as_graph_def()
    closed.versions.CopyFrom(graph.versions)
    for node in graph.node:
        copy = closed.node.add()
        copy.CopyFrom(node)
        for i, name in enumerate(copy.input):
            tensor = name if ":" in name else f"{name}:0"
            copy.input[i] = renamed.get(tensor, tensor).removesuffix(":0")
    return closed, renamed
