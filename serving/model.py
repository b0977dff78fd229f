"""One version of a model: a SavedModel folder, loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving.call import Call
from serving.codec import parse
from serving.errors import (
    DataLoss,
    FailedPrecondition,
    NotFound,
    from_code,
    signature_not_found,
)
from serving.signature import (
    DEFAULT_SIGNATURE,
    EXPLAINED_SIGNATURE,
    RANK_SIGNATURE,
    Compute,
    Signature,
)

SAVED_MODEL_FILE = "saved_model.pb"
_SERVE_TAG = "serve"
_WILDCARDS = "*?[]"


class Model:
    """The signatures of one SavedModel folder; it computes and holds no state of its own.

    Args:
        name: Name of the model.
        version: Its version.
        path: Folder that holds `saved_model.pb`.

    Raises:
        NotFound: The folder has no `saved_model.pb`.
        FailedPrecondition: TensorFlow would take the path for a pattern.
        DataLoss: The file is no SavedModel for serving.
    """

    def __init__(self, name: str, version: int, path: Path) -> None:
        self.name = name
        self.version = version
        self.path = path
        wild = sorted(set(str(path)) & set(_WILDCARDS))
        if wild:
            raise FailedPrecondition(
                f"The path {path} holds {' '.join(wild)}, which TensorFlow takes for a pattern of "
                f"file names: rename the folder, or link to it from a path without {_WILDCARDS}"
            )
        self.definitions = _read_definitions(path)
        self._loaded = tf.saved_model.load(str(path), tags=[_SERVE_TAG])
        self._signatures = {
            key: Signature(key, self.definitions[key], _compute(function))
            for key, function in self._loaded.signatures.items()
            if key in self.definitions
        }
        rows = self._signatures.get(DEFAULT_SIGNATURE)
        for key in (RANK_SIGNATURE, EXPLAINED_SIGNATURE):
            if rows is not None and key in self._signatures:
                self._signatures[key].share_candidates(rows)

    def signature(self, key: str) -> Signature:
        """The signature of this name."""
        signature = self._signatures.get(key)
        if signature is None:
            raise signature_not_found(key)
        return signature

    @property
    def signatures(self) -> Mapping[str, Signature]:
        return self._signatures

    @property
    def context_names(self) -> frozenset[str]:
        """The features that the candidates of a request share; none without `rank`."""
        rank = self._signatures.get(RANK_SIGNATURE)
        return frozenset() if rank is None else rank.context_names


def _compute(function: Callable[..., Mapping[str, Any]]) -> Compute:
    def compute(
        inputs: Mapping[str, np.ndarray], outputs: Sequence[str], call: Call
    ) -> dict[str, np.ndarray]:
        call.require_caller()
        started = time.perf_counter()
        try:
            results = function(
                **{
                    name: tf.constant(
                        array, tf.string if array.dtype == object else tf.as_dtype(array.dtype)
                    )
                    for name, array in inputs.items()
                }
            )
            return {name: results[name].numpy() for name in outputs}
        except tf.errors.OpError as error:
            raise from_code(error.error_code, error.message) from error
        finally:
            call.batch_rows = call.candidates
            call.runtime_seconds += time.perf_counter() - started

    return compute


def _read_definitions(path: Path) -> dict[str, meta_graph_pb2.SignatureDef]:
    file = path / SAVED_MODEL_FILE
    if not file.is_file():
        raise NotFound(
            f"The version folder {path} has no {SAVED_MODEL_FILE}. Expected an exported SavedModel."
        )
    saved = parse(saved_model_pb2.SavedModel, file.read_bytes(), str(file))
    for graph in saved.meta_graphs:
        if _SERVE_TAG in graph.meta_info_def.tags:
            # A copy: the graph itself, which may be large, is not kept.
            return {
                key: meta_graph_pb2.SignatureDef.FromString(value.SerializeToString())
                for key, value in graph.signature_def.items()
            }
    raise DataLoss(f"{file} holds no graph that is tagged {_SERVE_TAG!r}.")
