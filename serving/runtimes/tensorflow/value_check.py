"""Checks that the variables and tables that signatures read have values after the start.

They are found in the graph. Computing the signatures instead would not be safe: some write files
or change variables, and some fail or never end with made-up inputs.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import FailedPrecondition
from serving.runtimes.tensorflow.saved_model import definitions_of
from serving.runtimes.tensorflow.subgraph import needed_by

_RESOURCE_VARIABLES = ("VarHandleOp",)
_REFERENCE_VARIABLES = ("Variable", "VariableV2")  # of graphs from TensorFlow 1
_TABLES = ("HashTableV2",)  # other tables need no start


class ValueCheck:
    """Checks the values that the signatures of a graph read.

    It adds operations to the default graph, so create it before the session's first run: a
    session copies its graph after each change.

    Args:
        meta: The graph that was imported into the default graph.
    """

    def __init__(self, meta: meta_graph_pb2.MetaGraphDef) -> None:
        outputs = [
            info.name
            for definition in definitions_of(meta).values()
            for info in definition.outputs.values()
        ]
        needed = needed_by(meta.graph_def, *outputs)
        graph = tf.compat.v1.get_default_graph()
        self._have_values: dict[str, tf.Tensor] = {}
        self._look_ups: list[tf.Tensor] = []
        for node in meta.graph_def.node:
            if node.name not in needed:
                continue
            if node.op in _RESOURCE_VARIABLES:
                self._have_values[node.name] = tf.raw_ops.VarIsInitializedOp(
                    resource=graph.get_tensor_by_name(f"{node.name}:0")
                )
            elif node.op in _REFERENCE_VARIABLES:
                self._have_values[node.name] = tf.raw_ops.IsVariableInitialized(
                    ref=graph.get_tensor_by_name(f"{node.name}:0")
                )
            elif node.op in _TABLES:
                self._look_ups.append(
                    tf.raw_ops.LookupTableFindV2(
                        table_handle=graph.get_tensor_by_name(f"{node.name}:0"),
                        keys=tf.zeros([1], node.attr["key_dtype"].type),
                        default_value=tf.zeros([], node.attr["value_dtype"].type),
                    )
                )

    def __call__(self, session: tf.compat.v1.Session) -> None:
        """Raises an error if a variable or a table of the session has no values.

        Raises:
            FailedPrecondition: Neither the checkpoint nor the start gives a variable a value.
            OpError: A table is not initialised.
        """
        have_values, _ = session.run((self._have_values, self._look_ups))
        empty = sorted(name for name, has in have_values.items() if not has)
        if empty:
            names = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
            raise FailedPrecondition(
                f"{len(empty)} of the {len(have_values)} variables that the signatures read have "
                f"no value: {names}. Expected: the checkpoint beside the graph restores them, or "
                "the graph's start fills them."
            )
