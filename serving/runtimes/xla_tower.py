"""The dense tower of a signature as one operation of its session, which XLA compiles."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import kernels

from serving.errors import FailedPrecondition
from serving.runtimes.padding import Arrays
from serving.runtimes.split import flattened, split
from serving.runtimes.tensorflow_session import TensorFlowSession

_DEVICE = "XLA_CPU_JIT"


class XlaTower:
    """A signature cut in two: TensorFlow's strings, tables and embeddings, and the tower.

    Each shape of what comes to the tower is compiled when it comes first.

    Args:
        graph: The SavedModel's.
        session: The same SavedModel in TensorFlow, to which the tower is added. Its requests
            wait meanwhile, for a tenth of a second.
        key: Name of the signature.

    Raises:
        FailedPrecondition: An output is not of the tower.
    """

    def __init__(
        self, graph: meta_graph_pb2.MetaGraphDef, session: TensorFlowSession, key: str
    ) -> None:
        definition = session.definitions[key]
        outputs = {name: info.name for name, info in definition.outputs.items()}
        flat = flattened(graph, outputs.values())
        parts = split(flat, outputs.values(), _compilable(flat))
        dense = {node.name for node in parts.behind.node}
        if {name.partition(":")[0] for name in outputs.values()} - dense:
            raise FailedPrecondition(f"outputs come from {', '.join(parts.kept)}")
        tensors, results = session.compile(key, parts, definition)
        self._session = session
        self._feeds = {name: info.name for name, info in definition.inputs.items()}
        self._fetches = dict(zip(outputs, results, strict=True))
        self._cut = {name: tensors[name] for name in parts.cut}

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


def _compilable(graph: graph_pb2.GraphDef) -> frozenset[str]:
    """The types of a graph's operations that XLA compiles for a processor."""
    return frozenset(filter(_is_compilable, {node.op for node in graph.node}))


@functools.cache  # TensorFlow does not free what it answers with
def _is_compilable(op: str) -> bool:
    found = kernels.get_registered_kernels_for_op(op)
    return any(kernel.device_type == _DEVICE for kernel in found.kernel)
