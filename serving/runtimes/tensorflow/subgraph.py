"""The part of a graph that some of its tensors need."""

from __future__ import annotations

from tensorflow.core.framework import graph_pb2


def needed_by(graph: graph_pb2.GraphDef, *names: str) -> set[str]:
    """Returns the names of the nodes that some tensors or operations are computed by."""
    nodes = {node.name: node for node in graph.node}
    needed, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop().removeprefix("^").partition(":")[0]
        if name in nodes and name not in needed:
            needed.add(name)
            waiting.extend(nodes[name].input)
    return needed


def subgraph(graph: graph_pb2.GraphDef, *names: str) -> graph_pb2.GraphDef:
    """Returns the part of a graph that computes some tensors or operations."""
    needed = needed_by(graph, *names)
    part = graph_pb2.GraphDef(versions=graph.versions, library=graph.library)
    part.node.extend(node for node in graph.node if node.name in needed)
    return part
