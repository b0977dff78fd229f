"""ONNX Runtime for the dense towers, behind TensorFlow for strings, tables and embeddings."""

from __future__ import annotations

import importlib.util
import logging
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.errors import FailedPrecondition
from serving.runtimes import saved_model
from serving.runtimes.onnx_cache import TowerCache
from serving.runtimes.onnx_convert import Shape, converted, convertible
from serving.runtimes.samples import Inputs, made_up, recorded
from serving.runtimes.split import Split, flattened, split
from serving.runtimes.tensorflow_session import TensorFlowSession

_LOGGER = logging.getLogger(__name__)
TOLERANCE = 1e-5
_SIZES = ((2, 3), (5, 7))  # rows and lengths of two requests: what differs is open
_REPEATS = 15


@dataclass(frozen=True)
class Tower:
    session: Any
    cut: Mapping[str, str]  # inputs of the tower -> tensors of the graph before it
    outputs: Mapping[str, str]  # outputs of the signature -> outputs of the tower


class OnnxRuntime:
    """The towers of a SavedModel's signatures in ONNX Runtime, where they convert.

    A signature that does not convert, or gives other results, stays in TensorFlow.

    Args:
        path: The SavedModel's folder.
        tensorflow: The same folder in TensorFlow; it is closed with this.
        threads: Threads that one operation is spread over; 0 for all cores.
        cache_folder: Where converted towers are kept; None converts at every load.
        faster_only: Whether to keep a signature in TensorFlow where that is faster.

    Raises:
        FailedPrecondition: ONNX Runtime or tf2onnx is not installed.
    """

    def __init__(
        self,
        path: Path,
        tensorflow: TensorFlowSession,
        *,
        threads: int = 1,
        cache_folder: Path | None = None,
        faster_only: bool = False,
    ) -> None:
        if not is_installed():
            raise FailedPrecondition(
                "The runtime onnx needs onnxruntime and tf2onnx: install recsys-attn[onnx]."
            )
        self.definitions = tensorflow.definitions
        self._tensorflow = tensorflow
        self._threads = threads
        self._cache = TowerCache(cache_folder, path)
        self.towers: dict[str, Tower] = {}
        meta = saved_model.read_graph(path)
        requests = _requests(path, self.definitions)
        for key, definition in self.definitions.items():
            started = time.perf_counter()
            try:
                tower = self._tower(key, definition, meta)
                self._check(key, tower, requests[key])
            except Exception as error:  # whatever a graph has that does not convert
                reason = " ".join(str(error).split())
                _LOGGER.info("Signature %s stays in TensorFlow: %s", key, reason[:300])
                continue
            _LOGGER.info(
                "Signature %s has its tower in ONNX Runtime after %.1f s",
                key,
                time.perf_counter() - started,
            )
            if not faster_only or self._is_faster(key, tower, requests[key]):
                self.towers[key] = tower

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says; the deadline counts for TensorFlow's part."""
        tower = self.towers.get(key)
        if tower is None:
            return self._tensorflow.run(key, inputs, outputs, timeout)
        return self._through(tower, key, inputs, outputs, timeout)

    def close(self) -> None:
        """Frees the towers and TensorFlow's part."""
        self.towers = {}
        self._tensorflow.close()

    def _through(
        self,
        tower: Tower,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        definition = self.definitions[key]
        feeds = {definition.inputs[name].name: array for name, array in inputs.items()}
        at_cut = self._tensorflow.run_tensors(feeds, tower.cut, timeout)
        try:
            found = tower.session.run([tower.outputs[name] for name in outputs], at_cut)
        except Exception as error:
            # What the tower refuses, TensorFlow does too, in its own code and words.
            _LOGGER.debug("The tower of %s failed: %s", key, error)
            return self._tensorflow.run(key, inputs, outputs, timeout)
        return dict(zip(outputs, found, strict=True))

    def _tower(
        self, key: str, definition: meta_graph_pb2.SignatureDef, meta: meta_graph_pb2.MetaGraphDef
    ) -> Tower:
        kept = self._kept(key, definition)
        if kept is not None:
            return kept
        outputs = [info.name for info in definition.outputs.values()]
        parts = split(flattened(meta, outputs), outputs, convertible())
        if not parts.cut or {name.rpartition(":")[0] for name in outputs} - {
            node.name for node in parts.behind.node
        }:
            raise FailedPrecondition(f"there is nothing behind {', '.join(parts.kept)}")
        tensors = self._tensorflow.add(key, parts.before, definition, parts.cut + parts.reads)
        content = self._convert(parts, tensors, definition)
        self._cache.write(key, parts.before, content)
        return _assembled(_onnx_session(content, self._threads), tensors, definition)

    def _kept(self, key: str, definition: meta_graph_pb2.SignatureDef) -> Tower | None:
        """The tower that was converted before, if it was and is whole."""
        try:
            kept = self._cache.read(key)
            if kept is None:
                return None
            session = _onnx_session(kept[1], self._threads)
            taken = [one.name for one in session.get_inputs()]
            tensors = self._tensorflow.add(key, kept[0], definition, taken)
            return _assembled(session, tensors, definition)
        except Exception as error:  # whatever is in a file that is damaged
            reason = " ".join(str(error).split())
            _LOGGER.warning("Signature %s is converted again: %s", key, reason[:300])
            return None

    def _convert(
        self, parts: Split, tensors: Mapping[str, str], definition: meta_graph_pb2.SignatureDef
    ) -> bytes:
        samples = []
        for rows, size in _SIZES:
            inputs = made_up(definition, rows, size)
            feeds = {definition.inputs[name].name: array for name, array in inputs.items()}
            wanted = {name: tensors[name] for name in parts.cut}
            samples.append(self._tensorflow.run_tensors(feeds, wanted, None))
        weights = self._tensorflow.run_tensors(
            {}, {name: tensors[name] for name in parts.reads}, None
        )
        return converted(
            parts.behind,
            weights,
            {
                name: (tf.as_dtype(samples[0][name].dtype), _open_shape(name, samples))
                for name in parts.cut
            },
            [info.name for info in definition.outputs.values()],
        )

    def _check(self, key: str, tower: Tower, requests: Sequence[Inputs]) -> None:
        """Raises unless the tower gives TensorFlow's results."""
        outputs = list(self.definitions[key].outputs)
        for inputs in requests:
            expected = self._tensorflow.run(key, inputs, outputs, None)
            found = self._through(tower, key, inputs, outputs, None)
            for name in outputs:
                if found[name].shape != expected[name].shape or not np.allclose(
                    found[name], expected[name], TOLERANCE, TOLERANCE, equal_nan=True
                ):
                    raise FailedPrecondition(f"the output {name} would be another than before")

    def _is_faster(self, key: str, tower: Tower, requests: Sequence[Inputs]) -> bool:
        outputs = list(self.definitions[key].outputs)
        seconds: dict[str, list[float]] = {"tensorflow": [], "onnx": []}
        for _ in range(_REPEATS):  # in turns, so that whatever else runs hits both
            for inputs in requests:
                started = time.perf_counter()
                self._tensorflow.run(key, inputs, outputs, None)
                between = time.perf_counter()
                self._through(tower, key, inputs, outputs, None)
                seconds["tensorflow"].append(between - started)
                seconds["onnx"].append(time.perf_counter() - between)
        medians = {name: 1000 * statistics.median(values) for name, values in seconds.items()}
        best = min(medians, key=medians.__getitem__)
        _LOGGER.info(
            "Signature %s takes %.2f ms in TensorFlow and %.2f ms with ONNX Runtime: %s computes",
            key,
            medians["tensorflow"],
            medians["onnx"],
            best,
        )
        return best == "onnx"


def is_installed() -> bool:
    """Whether the extra `onnx` is there."""
    return all(importlib.util.find_spec(package) for package in ("onnxruntime", "tf2onnx"))


def _onnx_session(content: bytes, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _assembled(
    session: Any, tensors: Mapping[str, str], definition: meta_graph_pb2.SignatureDef
) -> Tower:
    cut = {one.name: tensors[one.name] for one in session.get_inputs()}
    return Tower(session, cut, {name: info.name for name, info in definition.outputs.items()})


def _open_shape(name: str, samples: Sequence[Mapping[str, np.ndarray]]) -> Shape:
    first, second = (sample[name].shape for sample in samples)
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def _requests(
    path: Path, definitions: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, list[Inputs]]:
    found: dict[str, list[Inputs]] = {key: [] for key in definitions}
    for key, inputs in recorded(path):
        if key in found:
            found[key].append(inputs)
    return {
        key: inputs or [made_up(definitions[key], *sizes) for sizes in _SIZES]
        for key, inputs in found.items()
    }
