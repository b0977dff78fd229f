"""The files that the graph of a SavedModel needs, and the first one that is not complete."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving.common.errors import DataLoss
from serving.encoding.codec import parse
from serving.runtimes.tensorflow.saved_model import (
    ASSETS,
    MANIFEST,
    MANIFEST_MARK,
    SAVED_MODEL_FILE,
    VARIABLES,
    serving_graph,
    wildcards,
)
from serving.runtimes.tensorflow.subgraph import needed_by

MISSING = "is missing"
_DAMAGED = "is cut off or damaged"
_SHARD = re.compile(r"\.data-(\d{5})-of-(\d{5})$")
# Errors of TensorFlow's reader for a truncated file.
_UNREADABLE = (tf.errors.OpError, LookupError, RuntimeError, ValueError)
# Operations whose values are in the checkpoint.
_RESTORED = {
    "VarHandleOp",
    "Variable",
    "VariableV2",
    "MutableHashTableV2",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTableV2",
}


class Gap(NamedTuple):
    """A file that is missing or not complete.

    Attributes:
        file: The file, relative to the folder.
        fault: The kind of gap.
        detail: Numbers, which change while the file is copied.
    """

    file: str
    fault: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.fault}{self.detail}"


class _Needs(NamedTuple):
    """The other files that a graph needs."""

    manifest: bool
    variables: bool
    assets: tuple[str, ...]


def find_gap(path: Path) -> Gap | None:
    """Returns the first file that the graph of a folder needs and that is not complete.

    An existing asset counts as complete, as its size is not recorded.

    Raises:
        OSError: A file cannot be read.
    """
    file = path / SAVED_MODEL_FILE
    stat = file.stat()
    needs = _needs(file, stat.st_size, stat.st_mtime_ns)
    if needs is None:
        return Gap(SAVED_MODEL_FILE, _DAMAGED)
    files = [MANIFEST] * needs.manifest + [f"{ASSETS}/{name}" for name in needs.assets]
    for name in files:
        if not (path / name).is_file():
            return Gap(name, MISSING)
    return _variables_gap(path) if needs.variables else None


@functools.lru_cache(maxsize=8)
def _needs(file: Path, size: int, modified: int) -> _Needs | None:
    """Returns the needs of the graph in a file, read once for each size and time of change.

    None if the file is not a graph. A file without a graph for serving needs no others, as
    loading reports it.
    """
    try:
        saved = parse(saved_model_pb2.SavedModel, file.read_bytes(), str(file))
    except DataLoss:
        return None
    if not saved.meta_graphs:  # a truncated file may be a valid message
        return None
    graph = serving_graph(saved)
    if graph is None:
        return _Needs(False, False, ())
    return _Needs(
        MANIFEST_MARK in graph.collection_def,
        _restores(graph),
        tuple(asset.filename for asset in graph.asset_file_def),
    )


def _restores(graph: meta_graph_pb2.MetaGraphDef) -> bool:
    restore = graph.saver_def.restore_op_name
    needed = needed_by(graph.graph_def, restore) if restore else set()
    return any(node.op in _RESTORED for node in graph.graph_def.node if node.name in needed)


def _variables_gap(path: Path) -> Gap | None:
    index = f"{VARIABLES}.index"
    if not (path / index).is_file():
        return Gap(index, MISSING)
    shards = _shards(path)
    for name, size in shards.items():
        if size is None:
            return Gap(name, MISSING)
    if wildcards(path):  # TensorFlow cannot read such a path; loading reports it
        return None
    try:
        reader = tf.train.load_checkpoint(str(path / VARIABLES))
    except _UNREADABLE:
        return Gap(index, _DAMAGED)
    total = sum(size or 0 for size in shards.values())
    try:
        expected = _bytes_of_values(reader)
    except _UNREADABLE:  # a string is truncated
        return Gap(f"{VARIABLES}.data", _DAMAGED)
    if total < expected:
        return Gap(f"{VARIABLES}.data", _DAMAGED, f" ({total} of {expected} bytes)")
    return None


def _shards(path: Path) -> dict[str, int | None]:
    """Returns the files of the variables and their sizes; None for a missing one."""
    count = 1
    for file in (path / VARIABLES).parent.glob(f"{VARIABLES.name}.data-*"):
        match = _SHARD.search(file.name)
        count = count if match is None else int(match[2])
    names = [f"{VARIABLES}.data-{number:05d}-of-{count:05d}" for number in range(count)]
    return {
        name: (path / name).stat().st_size if (path / name).is_file() else None for name in names
    }


def _bytes_of_values(reader: Any) -> int:
    """Returns the minimum size of the values in a checkpoint; strings are read, as sizes vary."""
    total, types = 0, reader.get_variable_to_dtype_map()
    for name, shape in reader.get_variable_to_shape_map().items():
        if types[name] == tf.string:
            # The lengths as varints (7 bits a byte), their checksum, and the strings.
            values = np.ravel(np.asarray(reader.get_tensor(name), object))
            lengths = [len(value) for value in values]
            total += sum(n + max(1, math.ceil(n.bit_length() / 7)) for n in lengths) + 4
        elif types[name].is_floating or types[name].is_integer or types[name].is_bool:
            total += math.prod(shape) * types[name].size
    return total
