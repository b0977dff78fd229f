"""Imports a graph in pieces, so that requests get Python's lock in between.

TensorFlow imports a graph in one call, which holds the lock all the time: 45 ms for 39 fields with
small vocabularies, and no request proceeds. While versions were loaded, the longest of 3,000
requests took 29 ms with pieces (`python -m benchmarks.reload --quiet 10 --minutes 1 --every 6`,
two cores), and of 3,600 without them 72 ms (`--quiet 20 --minutes 1.2 --every 8`); the 99.9th
percentile was 22 and 51 ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow.private_api import has_outputs

_PIECE_BYTES = 32_768
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_NO_SHAPES = "_disable_call_shape_inference"
_COLOCATION = "_class"

Nodes = Iterable[node_def_pb2.NodeDef]


def import_graph(meta: meta_graph_pb2.MetaGraphDef) -> None:
    """Imports the nodes and functions of a SavedModel's graph into the default graph.

    Raises:
        ValueError: The graph is not valid.
    """
    whole, producer = meta.graph_def, meta.meta_info_def.stripped_op_list
    graph = tf.compat.v1.get_default_graph()
    imported = set[str]()

    def take(piece: graph_pb2.GraphDef) -> None:
        inputs = {name for node in piece.node for name in node.input if _node(name) in imported}
        known = {name: _tensor(graph, name) for name in inputs}
        piece.versions.CopyFrom(whole.versions)
        tf.graph_util.import_graph_def(piece, known, name="", producer_op_list=producer)
        imported.update(node.name for node in piece.node)

    if not whole.library.function or not _can_be_cut(whole.node):
        take(whole)
        return
    for node in whole.node:
        if node.op in _CALLS:  # else TensorFlow infers the shapes of the whole function
            node.attr[_NO_SHAPES].b = True
    for functions in _pieces(whole.library.function):
        take(graph_pb2.GraphDef(library={"function": functions}))
    take(graph_pb2.GraphDef(library={"gradient": whole.library.gradient}))
    for wave in _waves(whole.node):
        for nodes in _pieces(wave):
            take(graph_pb2.GraphDef(node=nodes))


def _waves(nodes: Nodes) -> Iterator[list[node_def_pb2.NodeDef]]:
    """Yields the nodes, each after its inputs; the nodes of a loop come last, together."""
    left, done = list(nodes), set[str]()
    while left:
        wave = [node for node in left if all(_node(name) in done for name in node.input)] or left
        yield wave
        done.update(node.name for node in wave)
        left = [node for node in left if node.name not in done]


def _pieces(messages: Iterable[Any]) -> Iterator[list[Any]]:
    """Yields lists of nodes, or functions, that are small or have a single member."""
    piece: list[Any] = []
    size = 0
    for message in messages:
        more = message.ByteSize()
        if piece and size + more > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += more
    if piece:
        yield piece


def _can_be_cut(nodes: Collection[node_def_pb2.NodeDef]) -> bool:
    """Returns whether nodes refer to each other by outputs only, which connect the pieces."""
    waited_for = {name[1:] for node in nodes for name in node.input if name.startswith("^")}
    return not any(
        _COLOCATION in node.attr or (node.name in waited_for and not has_outputs(node))
        for node in nodes
    )


def _node(name: str) -> str:
    """Returns the node of an input `a`, `a:1`, or `^a` (a control input)."""
    return name.lstrip("^").partition(":")[0]


def _tensor(graph: tf.Graph, name: str) -> tf.Tensor:
    if name.startswith("^"):
        return graph.get_operation_by_name(name[1:]).outputs[0]
    return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
