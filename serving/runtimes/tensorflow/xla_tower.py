"""The dense tower of a signature as one operation of its session, compiled by XLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from serving.common.errors import FailedPrecondition
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.cut_graph import INPUT, CutGraph, cut, flatten
from serving.runtimes.tensorflow.padding import Arrays
from serving.runtimes.tensorflow.session import TensorFlowSession, share_by_name


class XlaTower:
    """A signature whose lookups TensorFlow computes, and whose tower XLA compiles.

    XLA compiles each shape of the tower's inputs at its first use, for about a second.

    Args:
        path: The SavedModel's folder.
        session: The same folder in TensorFlow. The tower is added to it, for which its requests
            wait a tenth of a second.
        key: Name of the signature.

    Raises:
        FailedPrecondition: An output is not computed by the tower.
    """

    def __init__(self, path: Path, session: TensorFlowSession, key: str) -> None:
        definition = session.definitions[key]
        outputs = {name: info.name for name, info in definition.outputs.items()}
        parts = cut(flatten(saved_model.read_graph(path), outputs.values()), outputs.values())
        dense = {node.name for node in parts.tower.node}
        if {name.partition(":")[0] for name in outputs.values()} - dense:
            raise FailedPrecondition(f"outputs come from {', '.join(parts.lookup_types)}")
        part, taken, results = _functions(parts, list(outputs.values()))
        tensors = session.add(key, part, definition, [*taken, *results])
        self._session = session
        self._feeds = {name: info.name for name, info in definition.inputs.items()}
        self._fetches = {
            name: tensors[result] for name, result in zip(outputs, results, strict=True)
        }
        self._taken = {name: tensors[name] for name in taken}

    def run(
        self, inputs: Arrays, outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Returns outputs by name."""
        # All of them are computed: TensorFlow prepares each set of outputs anew.
        results = self._session.run_tensors(
            self._fed(inputs), self._fetches, timeout, in_own_thread=True
        )
        return {name: results[name] for name in outputs}

    def require_fixed(self, *requests: Arrays) -> None:
        """Raises if the tower's inputs have other shapes with other requests of the same sizes.

        Such a request would have to wait until XLA has compiled its shape.
        """
        first, *others = (
            self._session.run_tensors(self._fed(arrays), self._taken, None) for arrays in requests
        )
        for name, array in first.items():
            if any(other[name].shape != array.shape for other in others):
                raise FailedPrecondition(f"the shape of {name} depends on values or lists")

    def _fed(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return {self._feeds[name]: array for name, array in inputs.items()}


def _functions(
    parts: CutGraph, outputs: Sequence[str]
) -> tuple[graph_pb2.GraphDef, list[str], list[str]]:
    """Returns a graph that calls both parts as functions, and the names of its cut and outputs.

    As functions they are two nodes of the session's graph instead of thousands.
    """
    tower_inputs = (*parts.cut, *parts.variables)
    inputs = [node for node in parts.lookups.node if node.op == INPUT]
    share_by_name(parts.lookups)

    @tf.function(autograph=False)
    def look_up(*tensors: tf.Tensor) -> list[tf.Tensor]:
        taken = zip((f"{node.name}:0" for node in inputs), tensors, strict=True)
        return _imported(parts.lookups, dict(taken), tower_inputs)

    @tf.function(jit_compile=True, autograph=False)
    def tower(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return _imported(parts.tower, dict(zip(tower_inputs, tensors, strict=True)), outputs)

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_pb2.GraphDef(node=inputs), name="")
        looked_up = look_up(*(graph.get_tensor_by_name(f"{node.name}:0") for node in inputs))
        results = tower(*looked_up)
    return (
        graph.as_graph_def(),
        [tensor.name for tensor in looked_up[: len(parts.cut)]],
        [tensor.name for tensor in results],
    )


def _imported(
    graph: graph_pb2.GraphDef, feeds: Mapping[str, tf.Tensor], outputs: Sequence[str]
) -> list[tf.Tensor]:
    tensors: list[tf.Tensor] = tf.import_graph_def(graph, feeds, outputs)
    return tensors
