"""A graph imported in pieces equals the graph imported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.runtimes.tensorflow import graph_import
from serving.runtimes.tensorflow.graph_import import import_graph
from serving.runtimes.tensorflow.saved_model import read_graph


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of nodes and functions of each piece that is imported."""
    found = []
    original = tf.graph_util.import_graph_def

    def count(piece: Any, *arguments: Any, **options: Any) -> Any:
        found.append(len(piece.node) + len(piece.library.function))
        return original(piece, *arguments, **options)

    monkeypatch.setattr(tf.graph_util, "import_graph_def", count)
    monkeypatch.setattr(graph_import, "_PIECE_BYTES", 1_000)
    return found


def _imported(meta: meta_graph_pb2.MetaGraphDef) -> tf.Graph:
    with tf.Graph().as_default() as graph:
        import_graph(meta)
    return graph


def _nodes(graph: tf.Graph) -> dict[str, Any]:
    return {
        operation.name: (
            operation.type,
            [tensor.name for tensor in operation.inputs],
            sorted(control.name for control in operation.control_inputs),
            [(tensor.dtype, tensor.shape.rank) for tensor in operation.outputs],
        )
        for operation in graph.get_operations()
    }


def _functions(graph: tf.Graph) -> set[str]:
    return {function.signature.name for function in graph.as_graph_def().library.function}


def test_pieces_have_the_same_nodes_and_functions(twofold: Path, pieces: list[int]) -> None:
    meta = read_graph(twofold)
    with tf.Graph().as_default() as expected:
        tf.compat.v1.train.import_meta_graph(meta)
    pieces.clear()
    found = _imported(meta)
    assert _nodes(found) == _nodes(expected)
    assert _functions(found) == _functions(expected)
    assert sum(pieces) == len(meta.graph_def.node) + len(meta.graph_def.library.function)
    assert max(pieces) < sum(pieces) / 4, "in pieces"


def _named(**nodes: dict[str, Any]) -> meta_graph_pb2.MetaGraphDef:
    """A graph of named nodes with a function; a graph without functions is never cut."""
    meta = meta_graph_pb2.MetaGraphDef()
    meta.graph_def.versions.producer = 1882
    meta.graph_def.library.function.add().signature.name = "nothing"
    for name, given in nodes.items():
        node = meta.graph_def.node.add(name=name, op=given["op"], input=given.get("input", []))
        for key, value in given.get("attr", {}).items():
            node.attr[key].CopyFrom(value)
    return meta


FLOAT = tf.compat.v1.AttrValue(type=tf.float32.as_datatype_enum)
SOURCE = {"op": "Placeholder", "attr": {"dtype": FLOAT}}


def test_a_graph_that_waits_for_a_no_op_is_not_cut(pieces: list[int]) -> None:
    graph = _imported(
        _named(
            last={"op": "NoOp", "input": ["^first"]},
            first={"op": "NoOp", "input": ["^source"]},
            source=SOURCE,
        )
    )
    assert pieces == [4]
    assert graph.get_operation_by_name("last").control_inputs[0].name == "first"


def test_control_inputs_connect_pieces(pieces: list[int]) -> None:
    graph = _imported(_named(last={"op": "NoOp", "input": ["^source"]}, source=SOURCE))
    assert pieces == [1, 0, 1, 1]
    assert graph.get_operation_by_name("last").control_inputs[0].name == "source"


def test_a_graph_with_colocation_is_not_cut(pieces: list[int]) -> None:
    beside = tf.compat.v1.AttrValue(list={"s": [b"loc:@source"]})
    place = {"op": "Identity", "input": ["source"], "attr": {"T": FLOAT, "_class": beside}}
    _imported(_named(placed=place, source=SOURCE))
    assert pieces == [3]


def test_an_invalid_graph_is_a_value_error(pieces: list[int]) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        _imported(_named(last={"op": "Identity", "input": ["nowhere"], "attr": {"T": FLOAT}}))
