"""Converted towers on disk, for the next load of the same version."""

from __future__ import annotations

import hashlib
import logging
import os
from importlib.metadata import version
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from serving.encoding.codec import parse
from serving.runtimes.tensorflow import saved_model

_CONVERTERS = ("onnxruntime", "tf2onnx")
_LOGGER = logging.getLogger(__name__)


class TowerCache:
    """The towers of one SavedModel: TensorFlow's part and the ONNX model behind it, by function.

    Args:
        folder: Where they are kept; None keeps nothing.
        path: The SavedModel's folder.
        purpose: What they were chosen for: other towers serve another one.
    """

    def __init__(self, folder: Path | None, path: Path, purpose: str) -> None:
        self._folder = folder
        self._digest = "" if folder is None else _digest(path, purpose)

    def read(self, key: str) -> tuple[graph_pb2.GraphDef, bytes] | None:
        """What was kept of a function, with no model where it has no tower; None: nothing was.

        Raises:
            DataLoss: It is damaged.
        """
        if self._folder is None:
            return None
        file = self._file(self._folder, key, ".pb")
        try:
            before, content = file.read_bytes(), file.with_suffix(".onnx").read_bytes()
        except OSError:
            return None
        return parse(graph_pb2.GraphDef, before, str(file)), content

    def write(self, key: str, before: graph_pb2.GraphDef, content: bytes) -> None:
        """Keeps a tower; one that cannot be kept is converted again the next time."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for suffix, data in ((".pb", before.SerializeToString()), (".onnx", content)):
                file = self._file(self._folder, key, suffix)
                draft = file.with_suffix(f"{suffix}.{os.getpid()}")
                draft.write_bytes(data)
                draft.replace(file)
        except OSError as error:
            _LOGGER.warning("No converted model is kept in %s: %s", self._folder, error.strerror)

    def _file(self, folder: Path, key: str, suffix: str) -> Path:
        return folder / f"{self._digest}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{suffix}"


def _digest(path: Path, purpose: str) -> str:
    """Of what towers depend on: the graph, the weights, and who converts and computes.

    The checkpoint's index has a checksum of each variable.
    """
    digest = hashlib.sha256((path / saved_model.SAVED_MODEL_FILE).read_bytes())
    digest.update(" ".join([purpose, tf.__version__, *map(version, _CONVERTERS)]).encode())
    index = path / f"{saved_model.VARIABLES}.index"
    if index.is_file():
        digest.update(index.read_bytes())
    return digest.hexdigest()[:32]
