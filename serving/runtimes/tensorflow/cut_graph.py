"""Cuts a signature in two: what only TensorFlow computes, and the dense tower behind it.

Strings, hash tables and the rows of embedding tables stay in TensorFlow, with all that leads to
them. What is left takes numbers and gives numbers, and its weights are small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.grappler import tf_optimizer

from serving.runtimes.tensorflow.graph import subgraph

READ = "ReadVariableOp"
_HANDLE = "VarHandleOp"
INPUT = "Placeholder"
_APART = (types_pb2.DT_STRING, types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)


@dataclass(frozen=True)
class Split:
    """The two parts of a signature.

    Attributes:
        before: What TensorFlow computes, up to the tensors of `cut` and the outputs it has itself.
        behind: What comes after; the tensors of `cut` are none of its nodes.
        cut: Names of the tensors that `behind` takes.
        reads: Names of the tensors of `behind` that are variables.
        kept: What stays in TensorFlow for its own sake: types of operations.
    """

    before: graph_pb2.GraphDef
    behind: graph_pb2.GraphDef
    cut: tuple[str, ...]
    reads: tuple[str, ...]
    kept: tuple[str, ...]


def flattened(meta: meta_graph_pb2.MetaGraphDef, outputs: Iterable[str]) -> graph_pb2.GraphDef:
    """The graph that computes some tensors: functions' bodies in place of calls, nothing idle."""
    wanted = [name.partition(":")[0] for name in outputs]
    # Vocabularies, which may be large, lie in the graph for its start alone.
    whole = meta_graph_pb2.MetaGraphDef(graph_def=subgraph(meta.graph_def, *wanted))
    whole.collection_def["train_op"].node_list.value.extend(wanted)  # what must stay
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = 1
    rewrite.optimizers.extend(["function", "constfold", "dependency"])  # half are identities
    flat = tf_optimizer.OptimizeGraph(config, whole)
    for node in flat.node:
        node.attr.pop("_class", None)  # a device beside nodes that have gone
    return subgraph(flat, *wanted)


def split(flat: graph_pb2.GraphDef, outputs: Iterable[str], convertible: Collection[str]) -> Split:
    """Cuts as early as it can: what nothing of TensorFlow's own depends on comes after.

    Args:
        flat: A graph without calls of functions.
        outputs: Names of the tensors that it is to compute.
        convertible: Types of operations that need not stay.
    """
    wanted = {name.partition(":")[0] for name in outputs}
    flat = subgraph(flat, *wanted)
    nodes = {node.name: node for node in flat.node}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(flat, name="")
        own = {
            name
            for name, node in nodes.items()
            if node.op not in (READ, _HANDLE, "NoOp", INPUT)
            and (node.op not in convertible or _is_apart(graph.get_operation_by_name(name)))
        }
    before = {node.name for node in subgraph(flat, *own).node}
    behind = graph_pb2.GraphDef(versions=flat.versions)
    cut: dict[str, None] = {}
    reads = []
    for node in flat.node:
        if node.op == READ and node.name not in own:
            reads.append(f"{node.name}:0")
        if node.op == "Const" or (
            node.name not in before and node.op not in (READ, _HANDLE, "NoOp", INPUT)
        ):
            copy = behind.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(name for name in node.input if not name.startswith("^"))
            copy.device = ""
    for name in (name for node in behind.node for name in node.input):
        producer = nodes[name.partition(":")[0]]
        if producer.op == INPUT or (producer.name in before and producer.op not in ("Const", READ)):
            cut[_tensor(name)] = None
    kept = tuple(sorted({nodes[name].op for name in own}))
    needed = {name.partition(":")[0] for name in [*cut, *reads]}
    needed |= wanted & before
    return Split(subgraph(flat, *needed), behind, tuple(cut), tuple(reads), kept)


def _is_apart(operation: tf.Operation) -> bool:
    """Whether it has to do with strings or resources, or calls a function."""
    tensors = [*operation.inputs, *operation.outputs]
    if any(tensor.dtype.as_datatype_enum in _APART for tensor in tensors):
        return True
    return any(value.HasField("func") for value in operation.node_def.attr.values())


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"
