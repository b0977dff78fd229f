"""Signatures that are names for outputs of one computation, which is converted and tried once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

OUTLET = "outlet_"
_IDENTITIES = ("Identity", "IdentityN")


@dataclass(frozen=True)
class Function:
    """The signatures that take the same tensors.

    Attributes:
        keys: Their names.
        definition: Has their inputs.
        outputs: The tensors that they give, each once.
    """

    keys: tuple[str, ...]
    definition: meta_graph_pb2.SignatureDef
    outputs: tuple[str, ...]


def functions_of(definitions: Mapping[str, meta_graph_pb2.SignatureDef]) -> list[Function]:
    """The functions behind some signatures."""
    keys: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for key, definition in sorted(definitions.items()):
        taken = sorted((name, info.name) for name, info in definition.inputs.items())
        keys.setdefault(tuple(taken), []).append(key)
    return [
        Function(
            tuple(group),
            definitions[group[0]],
            tuple(
                sorted({info.name for key in group for info in definitions[key].outputs.values()})
            ),
        )
        for group in keys.values()
    ]


def outlet(number: int) -> str:
    """The tensor that `with_outlets` adds for an output."""
    return f"{OUTLET}{number}:0"


def with_outlets(
    flat: graph_pb2.GraphDef, outputs: Sequence[str], types: Mapping[str, int]
) -> graph_pb2.GraphDef:
    """A graph that has a node of its own for each output, and no other that changes nothing.

    A call leaves a node behind that passes on all its outputs, strings among them: what needs one
    output would seem to need all.

    Args:
        flat: A graph without calls of functions.
        outputs: Tensors of it, in the order of their outlets.
        types: The types of these tensors.
    """
    origin: dict[str, str] = {}
    for node in flat.node:
        if node.op in _IDENTITIES:
            for i, name in enumerate(_data(node.input)):
                origin[f"{node.name}:{i}"] = _tensor(name)

    def first(name: str) -> str:
        while name in origin:
            name = origin[name]
        return name.removesuffix(":0")

    found = graph_pb2.GraphDef(versions=flat.versions, library=flat.library)
    for node in flat.node:
        copy = found.node.add()
        copy.CopyFrom(node)
        for i, name in enumerate(node.input):
            if not name.startswith("^"):
                copy.input[i] = first(_tensor(name))
    for number, name in enumerate(outputs):
        node = found.node.add(name=outlet(number).removesuffix(":0"), op=_IDENTITIES[0])
        node.input.append(first(name))
        node.attr["T"].type = types[name]
    return found


def needed_by(graph: graph_pb2.GraphDef, *tensors: str) -> set[str]:
    """The nodes that some tensors, or operations, are computed by."""
    nodes = {node.name: node for node in graph.node}
    found, waiting = set[str](), list(tensors)
    while waiting:
        name = waiting.pop().removeprefix("^").partition(":")[0]
        if name in nodes and name not in found:
            found.add(name)
            waiting.extend(nodes[name].input)
    return found


def _data(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("^")]


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"
