"""A SavedModel folder as it lies on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving.common.errors import DataLoss, FailedPrecondition, NotFound
from serving.encoding.codec import parse

SAVED_MODEL_FILE = "saved_model.pb"
VARIABLES = Path("variables") / "variables"
ASSETS = "assets"
MANIFEST = "manifest.json"
MANIFEST_MARK = "recsys_attn_manifest"  # a collection of the graph: a manifest belongs to it
_SERVE_TAG = "serve"
_WILDCARDS = "*?[]"
INIT_SIGNATURE = "__saved_model_init_op"
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")  # of graphs from TensorFlow 1


def read_graph(path: Path) -> meta_graph_pb2.MetaGraphDef:
    """The graph of a folder that is tagged for serving.

    Raises:
        NotFound: The folder has no `saved_model.pb`.
        FailedPrecondition: TensorFlow would take the path for a pattern.
        DataLoss: The file is no SavedModel for serving.
    """
    wild = wildcards(path)
    if wild:
        raise FailedPrecondition(
            f"The path {path} holds {' '.join(wild)}, which TensorFlow takes for a pattern of "
            f"file names: rename the folder, or link to it from a path without {_WILDCARDS}"
        )
    file = path / SAVED_MODEL_FILE
    if not file.is_file():
        raise NotFound(
            f"The version folder {path} has no {SAVED_MODEL_FILE}. Expected an exported SavedModel."
        )
    saved = parse(saved_model_pb2.SavedModel, file.read_bytes(), str(file))
    graph = serving_graph(saved)
    if graph is None:
        raise DataLoss(f"{file} holds no graph that is tagged {_SERVE_TAG!r}.")
    return graph


def serving_graph(saved: saved_model_pb2.SavedModel) -> meta_graph_pb2.MetaGraphDef | None:
    """The graph that is tagged for serving; None where none is."""
    for graph in saved.meta_graphs:
        if _SERVE_TAG in graph.meta_info_def.tags:
            return graph
    return None


def wildcards(path: Path) -> list[str]:
    """The characters for which TensorFlow would take a path for a pattern of file names."""
    return sorted(set(str(path)) & set(_WILDCARDS))


def is_ours(path: Path) -> bool:
    """Whether a folder is an export of this project: missing values that are added, as rows,
    candidates or at the end of lists, change no score."""
    return (path / MANIFEST).is_file()


def definitions_of(
    graph: meta_graph_pb2.MetaGraphDef,
) -> dict[str, meta_graph_pb2.SignatureDef]:
    """The signatures, in copies: the graph itself, which may be large, is not kept by them."""
    return {
        key: meta_graph_pb2.SignatureDef.FromString(value.SerializeToString())
        for key, value in graph.signature_def.items()
        if key != INIT_SIGNATURE
    }


def init_operation(graph: meta_graph_pb2.MetaGraphDef) -> str | None:
    """The operation that fills tables and the like; None where there is nothing to fill."""
    for info in graph.signature_def[INIT_SIGNATURE].outputs.values():
        return info.name.partition(":")[0]
    for name in _INIT_COLLECTIONS:
        for node in graph.collection_def[name].node_list.value:
            return node
    return None


def assets(graph: meta_graph_pb2.MetaGraphDef, path: Path) -> Iterator[tuple[str, str]]:
    """The tensors that name files of the folder, and the files."""
    for asset in graph.asset_file_def:
        yield asset.tensor_info.name, str(path / ASSETS / asset.filename)
