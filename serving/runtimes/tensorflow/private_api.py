"""The parts of TensorFlow that this project uses and that have no public name.

Nothing else in `serving` imports `tensorflow.python` or uses a private attribute of TensorFlow.
When TensorFlow is upgraded, this is the file to check; the tests of sessions and of XLA cover it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import kernels, op_def_registry
from tensorflow.python.grappler import tf_optimizer

_XLA_CPU = "XLA_CPU_JIT"


def endpoint(tensor: tf.Tensor) -> Any:
    """Returns the handle of a tensor for `run`.

    `Session.run` looks it up anew on every call.
    """
    return tensor._as_tf_output()


def run(
    session: tf.compat.v1.Session,
    feeds: Mapping[Any, np.ndarray],
    fetches: Sequence[Any],
    options: config_pb2.RunOptions | None,
) -> list[np.ndarray]:
    """Computes tensors by their handles.

    `Session.run` checks and converts each feed and fetch first, which takes as long as a small
    model with 39 features. This is the call that it makes in the end.
    """
    buffer = None
    if options is not None:
        buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
    try:
        arrays: list[np.ndarray] = pywrap_tf_session.TF_SessionRun_wrapper(
            session._session, buffer, feeds, fetches, [], None
        )
    finally:
        if buffer is not None:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
    return arrays


def extend(session: tf.compat.v1.Session) -> None:
    """Adds the new nodes of its graph to a session.

    Otherwise the next run does so, and the request that runs has to wait.
    """
    session._extend_graph()


def optimize(
    meta: meta_graph_pb2.MetaGraphDef, config: config_pb2.ConfigProto
) -> graph_pb2.GraphDef:
    """Runs Grappler over a graph; the public API runs it inside a session only."""
    return tf_optimizer.OptimizeGraph(config, meta)


@functools.cache  # TensorFlow leaks the memory of each answer
def is_compilable(op: str) -> bool:
    """Returns whether XLA compiles a type of operation for a CPU; no public list says so."""
    kernel_list = kernels.get_registered_kernels_for_op(op)
    return any(kernel.device_type == _XLA_CPU for kernel in kernel_list.kernel)


def has_outputs(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node has outputs; no public list of operations says so."""
    if "Tout" in node.attr:
        return bool(node.attr["Tout"].list.type)
    definition = op_def_registry.get(node.op)
    return definition is not None and bool(definition.output_arg)
