"""ONNX Runtime for the dense towers, behind TensorFlow for strings, tables and embeddings."""

from __future__ import annotations

import importlib.util
import logging
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import FailedPrecondition
from serving.runtimes.onnx_cache import TowerCache
from serving.runtimes.onnx_tower import SIZES, Tower, TowerFailed, Towers
from serving.runtimes.samples import Inputs, made_up, recorded, with_gaps
from serving.runtimes.tensorflow.graph import Function, functions_of
from serving.runtimes.tensorflow.session import TensorFlowSession

_LOGGER = logging.getLogger(__name__)
TOLERANCE = 1e-5
_REPEATS = 15


class OnnxRuntime:
    """The towers of a SavedModel's signatures in ONNX Runtime, where they convert.

    Signatures of the same inputs share one. What does not convert, or gives other results, stays
    in TensorFlow.

    Args:
        path: The SavedModel's folder.
        tensorflow: The same folder in TensorFlow; it is closed with this.
        threads: Threads that one operation is spread over; 0 for all cores.
        cache_folder: Where converted towers are kept, and which functions have none; None converts
            and tries at every load.
        faster_only: Whether to keep signatures in TensorFlow where that is faster.

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
        self.towers: dict[str, Tower] = {}
        cache = TowerCache(cache_folder, path, "faster" if faster_only else "all")
        make = Towers(tensorflow, path, cache, threads)
        requests = _requests(path, self.definitions)
        for function in functions_of(self.definitions):
            is_known, tower = make.kept(function)
            if not is_known:
                tower = self._made(make, function, _tried(function, requests), faster_only)
            if tower is not None:
                self.towers |= dict.fromkeys(function.keys, tower)

    def _made(
        self, make: Towers, function: Function, requests: Sequence[Inputs], faster_only: bool
    ) -> Tower | None:
        """The tower of a function, if it has one that is right and fast enough."""
        names = ", ".join(function.keys)
        started = time.perf_counter()
        try:
            tower = make(function)
            self._check(tower, [*requests, with_gaps(requests[0])])
        except Exception as error:  # whatever a graph has that does not convert
            reason = " ".join(str(error).split())
            _LOGGER.info("Signatures %s stay in TensorFlow: %s", names, reason[:300])
            make.leave(function)
            return None
        seconds = time.perf_counter() - started
        _LOGGER.info("Signatures %s have their tower in ONNX Runtime after %.1f s", names, seconds)
        if faster_only and not self._is_faster(names, tower, requests):
            make.leave(function)
            return None
        return tower

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says; the deadline counts for TensorFlow's part."""
        tower = self.towers.get(key)
        definition = self.definitions[key]
        tensors = {name: definition.outputs[name].name for name in outputs}
        if tower is not None and tower.gives(tensors.values()):
            feeds = {definition.inputs[name].name: array for name, array in inputs.items()}
            try:
                found = tower.run(feeds, list(dict.fromkeys(tensors.values())), timeout)
                return {name: found[tensor] for name, tensor in tensors.items()}
            except TowerFailed as error:
                # What the tower refuses, TensorFlow does too, in its own code and words.
                _LOGGER.debug("The tower of %s failed: %s", key, error)
        return self._tensorflow.run(key, inputs, outputs, timeout)

    def close(self) -> None:
        """Frees the towers and TensorFlow's part."""
        self.towers = {}
        self._tensorflow.close()

    def _check(self, tower: Tower, requests: Sequence[Inputs]) -> None:
        """Raises unless the tower gives TensorFlow's results."""
        for feeds in requests:
            expected = self._tensorflow.run_tensors(feeds, tower.same, None)
            found = tower.run(feeds, list(tower.same), None)
            for name, values in expected.items():
                if found[name].shape != values.shape or not _agree(found[name], values):
                    raise FailedPrecondition(f"the output {name} would be another than before")

    def _is_faster(self, names: str, tower: Tower, requests: Sequence[Inputs]) -> bool:
        seconds: dict[str, list[float]] = {"tensorflow": [], "onnx": []}
        for _ in range(_REPEATS):  # in turns, so that whatever else runs hits both
            for feeds in requests:
                started = time.perf_counter()
                self._tensorflow.run_tensors(feeds, tower.same, None)
                between = time.perf_counter()
                tower.run(feeds, list(tower.same), None)
                seconds["tensorflow"].append(between - started)
                seconds["onnx"].append(time.perf_counter() - between)
        medians = {name: 1000 * statistics.median(values) for name, values in seconds.items()}
        best = min(medians, key=medians.__getitem__)
        _LOGGER.info(
            "Signatures %s take %.2f ms in TensorFlow and %.2f ms with ONNX Runtime: %s computes",
            names,
            medians["tensorflow"],
            medians["onnx"],
            best,
        )
        return best == "onnx"


def is_installed() -> bool:
    """Whether the extra `onnx` is there."""
    return all(importlib.util.find_spec(package) for package in ("onnxruntime", "tf2onnx"))


def _agree(found: np.ndarray, expected: np.ndarray) -> bool:
    if expected.dtype == object:
        return np.array_equal(found, expected)
    return np.allclose(found, expected, TOLERANCE, TOLERANCE, equal_nan=True)


def _requests(
    path: Path, definitions: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, list[Inputs]]:
    """The recorded requests of each signature."""
    found: dict[str, list[Inputs]] = {key: [] for key in definitions}
    for key, inputs in recorded(path):
        if key in found:
            found[key].append(inputs)
    return found


def _tried(function: Function, requests: Mapping[str, Sequence[Inputs]]) -> list[Inputs]:
    """Arrays by tensor to try a function with: recorded ones, or else made up."""
    inputs = [one for key in function.keys for one in requests[key]] or [
        made_up(function.definition, *sizes) for sizes in SIZES
    ]
    names = {name: info.name for name, info in function.definition.inputs.items()}
    return [{names[name]: array for name, array in one.items()} for one in inputs]
