"""Cuts the graph of a signature in two: lookups, which TensorFlow computes, and the dense tower.

Strings, hash tables and embedding lookups stay in TensorFlow, with everything that they depend on.
The tower takes numbers and returns numbers, and its weights are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from serving.runtimes.tensorflow import private_api
from serving.runtimes.tensorflow.subgraph import subgraph

INPUT = "Placeholder"
_READ = "ReadVariableOp"
_NO_NODE_OF_THE_TOWER = (_READ, "VarHandleOp", "NoOp", INPUT)
_LOOKUP_TYPES = (types_pb2.DT_STRING, types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)


@dataclass(frozen=True)
class CutGraph:
    """The two parts of a signature's graph.

    Attributes:
        lookups: The part that TensorFlow computes: everything before the cut.
        tower: The part after the cut. The tensors of `cut` are not among its nodes.
        cut: Names of the tensors that the tower takes.
        variables: Names of the tower's tensors that are variables.
        lookup_types: Types of the operations that cannot be in a tower.
    """

    lookups: graph_pb2.GraphDef
    tower: graph_pb2.GraphDef
    cut: tuple[str, ...]
    variables: tuple[str, ...]
    lookup_types: tuple[str, ...]


def flatten(meta: meta_graph_pb2.MetaGraphDef, outputs: Iterable[str]) -> graph_pb2.GraphDef:
    """Returns the graph that computes some tensors, with every function call inlined."""
    nodes = [name.partition(":")[0] for name in outputs]
    # Without the vocabularies, which may be large and which only the start needs.
    whole = meta_graph_pb2.MetaGraphDef(graph_def=subgraph(meta.graph_def, *nodes))
    whole.collection_def["train_op"].node_list.value.extend(nodes)  # nodes to keep
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = 1
    rewrite.optimizers.extend(["function", "constfold", "dependency"])  # half are identities
    flat = private_api.optimize(whole, config)
    for node in flat.node:
        node.attr.pop("_class", None)  # colocation with nodes that are gone
    return subgraph(flat, *nodes)


def cut(flat: graph_pb2.GraphDef, outputs: Iterable[str]) -> CutGraph:
    """Cuts a graph as early as possible: behind the last operation that XLA does not compile.

    Args:
        flat: A graph without function calls.
        outputs: Names of the tensors to compute.
    """
    output_nodes = {name.partition(":")[0] for name in outputs}
    flat = subgraph(flat, *output_nodes)
    nodes = {node.name: node for node in flat.node}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(flat, name="")
        lookups = {
            name
            for name, node in nodes.items()
            if node.op not in _NO_NODE_OF_THE_TOWER
            and _is_lookup(graph.get_operation_by_name(name))
        }
    before = {node.name for node in subgraph(flat, *lookups).node}
    tower = graph_pb2.GraphDef(versions=flat.versions)
    for node in flat.node:
        if node.op == "Const" or (node.name not in before and node.op not in _NO_NODE_OF_THE_TOWER):
            copy = tower.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(name for name in node.input if not name.startswith("^"))
            copy.device = ""
    inputs: dict[str, None] = {}  # in order, each once
    for name in (name for node in tower.node for name in node.input):
        producer = nodes[name.partition(":")[0]]
        if producer.op == INPUT or (
            producer.name in before and producer.op not in ("Const", _READ)
        ):
            inputs[name if ":" in name else f"{name}:0"] = None
    reads = tuple(
        f"{node.name}:0" for node in flat.node if node.op == _READ and node.name not in lookups
    )
    return CutGraph(
        subgraph(flat, *inputs, *reads, *(output_nodes & before)),
        tower,
        tuple(inputs),
        reads,
        tuple(sorted({nodes[name].op for name in lookups})),
    )


def _is_lookup(operation: tf.Operation) -> bool:
    """Returns whether an operation has strings or resources, calls a function, or is not XLA's."""
    tensors = [*operation.inputs, *operation.outputs]
    return (
        not private_api.is_compilable(operation.type)
        or any(tensor.dtype.as_datatype_enum in _LOOKUP_TYPES for tensor in tensors)
        or any(value.HasField("func") for value in operation.node_def.attr.values())
    )
