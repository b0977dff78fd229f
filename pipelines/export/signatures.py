"""Signatures for Classify, Regress and MultiInference: views of the tensors of another one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from pipelines.common.artifacts import MANIFEST
from recsys_attn.schema import Schema

EXAMPLES_SIGNATURE = "examples"
WITH_CONTEXT = "_with_context"
EXAMPLE_INPUTS = {  # and the sides whose features each one's Examples may have
    EXAMPLES_SIGNATURE: {"inputs": ["context", "candidate"]},
    EXAMPLES_SIGNATURE + WITH_CONTEXT: {
        "context": ["context", "candidate"],
        "examples": ["candidate"],
    },
}

FIRST = ("classify", "regress")  # the first task's
PREDICT_METHOD, CLASSIFY_METHOD, REGRESS_METHOD = (
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)
MANIFEST_MARK = "recsys_attn_manifest"  # a collection of the graph: a manifest belongs to it
_SAVED_MODEL = "saved_model.pb"


class View(NamedTuple):
    """A signature that takes what another one takes and gives some of its outputs.

    Attributes:
        of: The other signature.
        method: TensorFlow Serving's method name.
        outputs: Output of the other signature by its name here.
    """

    of: str
    method: str
    outputs: dict[str, str]


def views(schema: Schema) -> dict[str, View]:
    """Every task's `classify` and `regress`, with and without a context, by signature name.

    The first task's have the plain names too. Classify and Regress of TensorFlow Serving take one
    input: what takes a context of its own is for Predict, and for a server that knows of it.
    """
    found: dict[str, View] = {}
    for task in schema.tasks:
        outputs = {REGRESS_METHOD: {"outputs": task.name}}
        if task.kind == "binary":
            outputs[CLASSIFY_METHOD] = {
                name: classify_output(task.name, name) for name in ("classes", "scores")
            }
        for method, chosen in outputs.items():
            plain = method.rpartition("/")[2]
            for name in (f"{plain}_{task.name}", plain):
                found.setdefault(name, View(EXAMPLES_SIGNATURE, method, chosen))
                if ranks(schema):
                    shared = View(EXAMPLES_SIGNATURE + WITH_CONTEXT, PREDICT_METHOD, chosen)
                    found.setdefault(name + WITH_CONTEXT, shared)
    return found


def classify_output(task: str, output: str) -> str:
    """Where the signatures that take Examples have `classes` and `scores` of a task."""
    return f"{task}.{output}"


def ranks(schema: Schema) -> bool:
    """Whether there is anything to rank: without a candidate's feature all rows would be one."""
    return any(feature.side == "candidate" for feature in schema.features)


def add_views(folder: Path, added: dict[str, View]) -> None:
    """Writes views into a SavedModel: names for tensors that its graph has, and no new graph.

    So all of them share one input tensor, which MultiInference of TensorFlow Serving asks for,
    and what it fetches of several is computed once. A mark, which TensorFlow ignores, says that a
    manifest belongs to the file: a copy that has none yet is not taken for a whole SavedModel.
    """
    file = folder / _SAVED_MODEL
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (graph,) = saved.meta_graphs
    for name, view in added.items():
        graph.signature_def[name].CopyFrom(_definition(graph.signature_def[view.of], view))
    graph.collection_def[MANIFEST_MARK].bytes_list.value[:] = [MANIFEST.encode()]
    file.write_bytes(saved.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # optional, and of the file before


def _definition(whole: meta_graph_pb2.SignatureDef, view: View) -> meta_graph_pb2.SignatureDef:
    outputs = {name: whole.outputs[output] for name, output in view.outputs.items()}
    return meta_graph_pb2.SignatureDef(
        inputs=whole.inputs, outputs=outputs, method_name=view.method
    )
