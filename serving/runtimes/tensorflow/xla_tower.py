"""The dense tower of a signature as one operation of its session, which XLA compiles."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import kernels

from serving.common.errors import FailedPrecondition
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.cut_graph import INPUT, Split, flattened, split
from serving.runtimes.tensorflow.padding import Arrays
from serving.runtimes.tensorflow.session import TensorFlowSession, share_by_name

_DEVICE = "XLA_CPU_JIT"


class XlaTower:
    """A signature cut in two: TensorFlow's strings, tables and embeddings, and the tower.

    Each shape of what comes to the tower is compiled when it comes first.

    Args:
        path: The SavedModel's folder.
        session: The same folder in TensorFlow, to which the tower is added. Its requests
            wait meanwhile, for a tenth of a second.
        key: Name of the signature.

    Raises:
        FailedPrecondition: An output is not of the tower.
    """

    def __init__(self, path: Path, session: TensorFlowSession, key: str) -> None:
        definition = session.definitions[key]
        outputs = {name: info.name for name, info in definition.outputs.items()}
        flat = flattened(saved_model.read_graph(path), outputs.values())
        parts = split(flat, outputs.values(), _compilable(flat))
        dense = {node.name for node in parts.behind.node}
        if {name.partition(":")[0] for name in outputs.values()} - dense:
            raise FailedPrecondition(f"outputs come from {', '.join(parts.kept)}")
        part, cut, results = _functions(parts, list(outputs.values()))
        tensors = session.add(key, part, definition, [*cut, *results])
        self._session = session
        self._feeds = {name: info.name for name, info in definition.inputs.items()}
        self._fetches = {
            name: tensors[result] for name, result in zip(outputs, results, strict=True)
        }
        self._cut = {name: tensors[name] for name in cut}

    def run(
        self, inputs: Arrays, outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Outputs by name."""
        # All are computed together, and each choice of them would have to be prepared apart.
        found = self._session.run_tensors(
            self._fed(inputs), self._fetches, timeout, in_own_thread=True
        )
        return {name: found[name] for name in outputs}

    def require_fixed(self, *requests: Arrays) -> None:
        """Raises where what comes to the tower has not the same shape with each of the requests.

        A request could then have to wait until its shape is compiled.
        """
        first, *others = (
            self._session.run_tensors(self._fed(arrays), self._cut, None) for arrays in requests
        )
        for name, array in first.items():
            if any(other[name].shape != array.shape for other in others):
                raise FailedPrecondition(f"the shape of {name} depends on values or lists")

    def _fed(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return {self._feeds[name]: array for name, array in inputs.items()}


def _functions(
    parts: Split, outputs: Sequence[str]
) -> tuple[graph_pb2.GraphDef, list[str], list[str]]:
    """The two parts as calls of two functions, and the names of the cut's tensors and outputs.

    As single nodes in the session's graph they would cost Python thousands of objects, which hold
    up requests when they are collected.
    """
    given = (*parts.cut, *parts.reads)
    inputs = [node for node in parts.before.node if node.op == INPUT]
    share_by_name(parts.before)

    @tf.function(autograph=False)
    def prepare(*tensors: tf.Tensor) -> list[tf.Tensor]:
        taken = zip((f"{node.name}:0" for node in inputs), tensors, strict=True)
        return _imported(parts.before, dict(taken), given)

    @tf.function(jit_compile=True, autograph=False)
    def tower(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return _imported(parts.behind, dict(zip(given, tensors, strict=True)), outputs)

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_pb2.GraphDef(node=inputs), name="")
        cut = prepare(*(graph.get_tensor_by_name(f"{node.name}:0") for node in inputs))
        results = tower(*cut)
    return (
        graph.as_graph_def(),
        [tensor.name for tensor in cut[: len(parts.cut)]],
        [tensor.name for tensor in results],
    )


def _imported(
    graph: graph_pb2.GraphDef, given: Mapping[str, tf.Tensor], wanted: Sequence[str]
) -> list[tf.Tensor]:
    found: list[tf.Tensor] = tf.import_graph_def(graph, given, wanted)
    return found


def _compilable(graph: graph_pb2.GraphDef) -> frozenset[str]:
    """The types of a graph's operations that XLA compiles for a processor."""
    return frozenset(filter(_is_compilable, {node.op for node in graph.node}))


@functools.cache  # TensorFlow does not free what it answers with
def _is_compilable(op: str) -> bool:
    found = kernels.get_registered_kernels_for_op(op)
    return any(kernel.device_type == _DEVICE for kernel in found.kernel)
