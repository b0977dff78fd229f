"""Signatures for Classify, Regress and MultiInference, as views of another signature."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from pipelines.common.artifacts import MANIFEST
from recsys_attn.schema import Schema

EXAMPLES_SIGNATURE = "examples"
WITH_CONTEXT = "_with_context"
EXAMPLE_INPUTS = {  # and the sides of the features in each input's Examples
    EXAMPLES_SIGNATURE: {"inputs": ["context", "candidate"]},
    EXAMPLES_SIGNATURE + WITH_CONTEXT: {
        "context": ["context", "candidate"],
        "examples": ["candidate"],
    },
}

FIRST = ("classify", "regress")  # names for the first task
PREDICT_METHOD, CLASSIFY_METHOD, REGRESS_METHOD = (
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)
MANIFEST_MARK = "recsys_attn_manifest"  # a graph collection that marks exports with a manifest
_SAVED_MODEL = "saved_model.pb"


class View(NamedTuple):
    """A signature with the inputs of another signature and some of its outputs.

    Attributes:
        of: The other signature.
        method: TensorFlow Serving's method name.
        outputs: The other signature's outputs, by their names in this one.
    """

    of: str
    method: str
    outputs: dict[str, str]


def views(schema: Schema) -> dict[str, View]:
    """`classify` and `regress` of every task, with and without a context, by signature name.

    The first task also has the plain names. TensorFlow Serving's Classify and Regress take one
    input, so views with a separate context use Predict's method name.
    """
    by_name: dict[str, View] = {}
    for task in schema.tasks:
        outputs = {REGRESS_METHOD: {"outputs": task.name}}
        if task.kind == "binary":
            outputs[CLASSIFY_METHOD] = {
                name: classify_output(task.name, name) for name in ("classes", "scores")
            }
        for method, view_outputs in outputs.items():
            plain = method.rpartition("/")[2]
            for name in (f"{plain}_{task.name}", plain):
                by_name.setdefault(name, View(EXAMPLES_SIGNATURE, method, view_outputs))
                if ranks(schema):
                    shared = View(EXAMPLES_SIGNATURE + WITH_CONTEXT, PREDICT_METHOD, view_outputs)
                    by_name.setdefault(name + WITH_CONTEXT, shared)
    return by_name


def classify_output(task: str, output: str) -> str:
    """The output name of a task's `classes` or `scores` in the signatures of Examples."""
    return f"{task}.{output}"


def ranks(schema: Schema) -> bool:
    """Whether the schema has candidate features, and so candidates to rank."""
    return any(feature.side == "candidate" for feature in schema.features)


def add_views(folder: Path, added: dict[str, View]) -> None:
    """Adds views to a SavedModel, as names for existing tensors.

    All views share one input tensor, as TensorFlow Serving's MultiInference requires, and common
    outputs are computed once. A mark, which TensorFlow ignores, says that the folder has a
    manifest, so that an incomplete copy without it is not loaded.
    """
    with _changed(folder) as graph:
        for name, view in added.items():
            graph.signature_def[name].CopyFrom(_definition(graph.signature_def[view.of], view))
        graph.collection_def[MANIFEST_MARK].bytes_list.value[:] = [MANIFEST.encode()]


def name_histories(folder: Path, schema: Schema) -> None:
    """Names the last axis of each sequence after its history, in all signatures of a SavedModel.

    TensorFlow ignores the names. Servers and clients see in them which lists of a request must be
    equally long.
    """
    histories = {s.name: name for name, sequences in schema.histories.items() for s in sequences}
    with _changed(folder) as graph:
        for definition in graph.signature_def.values():
            for name in definition.inputs.keys() & histories.keys():
                definition.inputs[name].tensor_shape.dim[-1].name = histories[name]


@contextlib.contextmanager
def _changed(folder: Path) -> Iterator[meta_graph_pb2.MetaGraphDef]:
    """Yields the graph of a SavedModel, and writes what the block changes."""
    file = folder / _SAVED_MODEL
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (graph,) = saved.meta_graphs
    yield graph
    file.write_bytes(saved.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # optional, and of the file before


def _definition(whole: meta_graph_pb2.SignatureDef, view: View) -> meta_graph_pb2.SignatureDef:
    outputs = {name: whole.outputs[output] for name, output in view.outputs.items()}
    return meta_graph_pb2.SignatureDef(
        inputs=whole.inputs, outputs=outputs, method_name=view.method
    )
