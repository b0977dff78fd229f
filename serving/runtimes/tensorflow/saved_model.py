"""The files of a SavedModel folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving.common.errors import DataLoss, FailedPrecondition, NotFound
from serving.encoding.codec import parse

SAVED_MODEL_FILE = "saved_model.pb"
VARIABLES = Path("variables") / "variables"
ASSETS = "assets"
MANIFEST = "manifest.json"
MANIFEST_MARK = "recsys_attn_manifest"  # a collection of graphs that have a manifest
_SERVE_TAG = "serve"
_WILDCARDS = "*?[]"
INIT_SIGNATURE = "__saved_model_init_op"
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")  # in graphs of TensorFlow 1


def read_graph(path: Path) -> meta_graph_pb2.MetaGraphDef:
    """Reads the graph of a folder that is tagged for serving.

    Raises:
        NotFound: The folder has no `saved_model.pb`.
        FailedPrecondition: TensorFlow would read the path as a pattern.
        DataLoss: The file is no SavedModel, or has no such graph.
    """
    wild = wildcards(path)
    if wild:
        raise FailedPrecondition(
            f"The path {path} contains {' '.join(wild)}, which TensorFlow reads as a pattern of "
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
        raise DataLoss(f"{file} has no graph that is tagged {_SERVE_TAG!r}.")
    return graph


def serving_graph(saved: saved_model_pb2.SavedModel) -> meta_graph_pb2.MetaGraphDef | None:
    """Returns the graph that is tagged for serving, or None."""
    for graph in saved.meta_graphs:
        if _SERVE_TAG in graph.meta_info_def.tags:
            return graph
    return None


def wildcards(path: Path) -> list[str]:
    """Returns the characters that make a path a pattern of file names in TensorFlow."""
    return sorted(set(str(path)) & set(_WILDCARDS))


def is_ours(path: Path) -> bool:
    """Returns whether a folder is an export of this project.

    In such a model, missing values as further rows or candidates, or at the end of lists, change
    no score.
    """
    return (path / MANIFEST).is_file()


def read_manifest(path: Path) -> Mapping[str, Any] | None:
    """Returns the manifest of a folder that is an export of this project, and None of another.

    Raises:
        DataLoss: It is no JSON.
    """
    if not is_ours(path):
        return None
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except ValueError as error:
        raise DataLoss(f"{path / MANIFEST} is no JSON: {error}") from error
    return manifest if isinstance(manifest, dict) else {}


def definitions_of(
    graph: meta_graph_pb2.MetaGraphDef,
) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Returns copies of the signatures, which do not keep the graph in memory."""
    return {
        key: meta_graph_pb2.SignatureDef.FromString(value.SerializeToString())
        for key, value in graph.signature_def.items()
        if key != INIT_SIGNATURE
    }


def init_operation(graph: meta_graph_pb2.MetaGraphDef) -> str | None:
    """Returns the operation that initialises tables, or None."""
    for info in graph.signature_def[INIT_SIGNATURE].outputs.values():
        return info.name.partition(":")[0]
    for name in _INIT_COLLECTIONS:
        for node in graph.collection_def[name].node_list.value:
            return node
    return None


def assets(graph: meta_graph_pb2.MetaGraphDef, path: Path) -> Iterator[tuple[str, str]]:
    """Yields the tensors that name files of the folder, and the paths of the files."""
    for asset in graph.asset_file_def:
        yield asset.tensor_info.name, str(path / ASSETS / asset.filename)
