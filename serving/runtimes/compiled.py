"""TensorFlow whose busiest shapes are compiled by XLA.

TensorFlow goes over memory once for each operation; XLA makes one loop of many, which halves the
time of DIN's activation unit. But it compiles each shape anew, for about a second. So a shape is
compiled when computing it has taken longer than that, beside the requests. They wait once for
each signature, for a tenth of a second or two, when its tower is added to TensorFlow's session.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from serving.background import Background
from serving.errors import DeadlineExceeded, FailedPrecondition, ServingError
from serving.runtimes.padding import Padding, Shapes, padded, paddings
from serving.runtimes.tensorflow_session import TensorFlowSession, beside_requests
from serving.runtimes.xla_tower import XlaTower

_LOGGER = logging.getLogger(__name__)
TOLERANCE = 1e-5
_MOST = 64  # compiled shapes of a signature
_KNOWN = 4096  # shapes of requests whose padded shape is remembered
_TURNS, _TURNS_SECONDS = (5, 50), 0.2  # at least and at most, and what they take if it is less
_GAIN = 0.95  # of TensorFlow's time, at most, that a compiled shape must take
Arrays = Mapping[str, np.ndarray]


class CompiledRuntime:
    """A SavedModel in TensorFlow, whose `serving_default` and `rank` XLA compiles by shape.

    Strings, vocabularies and embeddings stay in TensorFlow. Rows, candidates and lists are padded
    with missing values, to the next of sixteen sizes an octave. A shape for which XLA gives other
    scores, or is no faster, stays as it is.

    Args:
        path: The SavedModel's folder, an export of this project: missing values that are added
            change no score.
        tensorflow: The same folder in TensorFlow; it is closed with this.
        compile_after: Seconds that a shape has taken to compute before it is compiled.
    """

    def __init__(self, path: Path, tensorflow: TensorFlowSession, compile_after: float) -> None:
        self.definitions = tensorflow.definitions
        self._path = path
        self._tensorflow = tensorflow
        self._compile_after = compile_after
        self._signatures = {
            key: _Signature(padding) for key, padding in paddings(self.definitions).items()
        }
        self._lock = threading.Lock()
        # What it does is short, and a request may wait for a lock of Python's that it holds.
        self._background = Background("compile", niceness=0)

    def run(
        self, key: str, inputs: Arrays, outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says; what is compiled is not stopped in the middle."""
        signature = self._signatures.get(key)
        if signature is None:
            return self._tensorflow.run(key, inputs, outputs, timeout)
        shape = signature.shape_of(inputs)
        if shape.tower is not None:
            try:
                return signature.through(shape.tower, shape, inputs, outputs, timeout)
            except DeadlineExceeded:
                raise
            except ServingError as error:
                shape.tower = None
                _LOGGER.warning("What XLA compiled of %s is not used any more: %s", key, error)
        started = time.perf_counter()
        found = self._tensorflow.run(key, inputs, outputs, timeout)
        if not shape.is_decided:
            shape.seconds += time.perf_counter() - started
            if shape.seconds >= self._compile_after:
                self._decide(key, shape, inputs)
        return found

    def compiled(self, key: str) -> int:
        """How many shapes of a signature are compiled."""
        return sum(shape.tower is not None for shape in self._signatures[key].shapes)

    def close(self) -> None:
        """Frees what it holds, once nothing is compiled any more."""
        self._background.stop()
        self._signatures = {}
        self._tensorflow.close()

    def _decide(self, key: str, shape: _Shape, inputs: Arrays) -> None:
        with self._lock:
            if shape.is_decided:
                return
            shape.is_decided = True
        if self.compiled(key) < _MOST:
            self._background.leave(lambda: self._compile(key, shape, inputs))

    def _compile(self, key: str, shape: _Shape, inputs: Arrays) -> None:
        signature, started = self._signatures[key], time.perf_counter()
        try:
            if signature.tower is None:
                signature.tower = XlaTower(self._path, self._tensorflow, key)
            with beside_requests():
                compiled, before = self._compare(key, signature.tower, shape, inputs)
        except Exception as error:  # whatever a graph has that does not compile
            reason = " ".join(str(error).split())
            _LOGGER.info("Signature %s is not compiled: %s", key, reason[:300])
            return
        if compiled < _GAIN * before:
            shape.tower = signature.tower
        _LOGGER.info(
            "Signature %s takes %.2f ms, and %.2f compiled, which took %.1f s; %s",
            key, 1000 * before, 1000 * compiled, time.perf_counter() - started,
            f"shapes: {shape.padded}" if shape.tower else "it stays as it is",
        )  # fmt: skip

    def _compare(
        self, key: str, tower: XlaTower, shape: _Shape, inputs: Arrays
    ) -> tuple[float, float]:
        """Seconds of a request, compiled and as it is; raises where scores differ."""
        signature, outputs = self._signatures[key], list(self.definitions[key].outputs)
        tower.require_fixed(signature.padding.filled(inputs, shape.padded))
        found = signature.through(tower, shape, inputs, outputs, None)  # which compiles it
        seconds: tuple[list[float], list[float]] = ([], [])
        while not _is_enough(seconds):
            begin = time.perf_counter()
            found = signature.through(tower, shape, inputs, outputs, None)
            between = time.perf_counter()
            expected = self._tensorflow.run(key, inputs, outputs, None)
            seconds[0].append(between - begin)
            seconds[1].append(time.perf_counter() - between)
        for name in outputs:
            if found[name].shape != expected[name].shape or not np.allclose(
                found[name], expected[name], TOLERANCE, TOLERANCE, equal_nan=True
            ):
                raise FailedPrecondition(f"the output {name} would be another than before")
        return min(seconds[0]), min(seconds[1])  # the least disturbed by requests beside it


def _is_enough(seconds: tuple[list[float], list[float]]) -> bool:
    turns, (least, most) = len(seconds[0]), _TURNS
    spent = sum(map(sum, seconds))
    return turns >= most or (turns >= least and spent >= _TURNS_SECONDS)


class _Shape:
    """Requests that are padded to one shape."""

    def __init__(self, padded: Shapes) -> None:
        self.padded = padded
        self.seconds = 0.0  # that they took in TensorFlow
        self.is_decided = False
        self.tower: XlaTower | None = None  # what computes them


class _Signature:
    """The requests of a signature, by shape."""

    def __init__(self, padding: Padding) -> None:
        self.padding = padding
        self.tower: XlaTower | None = None
        self._by_padded: dict[Shapes, _Shape] = {}
        self._by_own: dict[Shapes, _Shape] = {}

    @property
    def shapes(self) -> list[_Shape]:
        return list(self._by_padded.values())

    def shape_of(self, inputs: Arrays) -> _Shape:
        own = self.padding.shapes(inputs)
        found = self._by_own.get(own)
        if found is None:
            to = padded(own)
            found = self._by_padded.setdefault(to, _Shape(to))
            if len(self._by_own) >= _KNOWN:
                self._by_own.clear()
            self._by_own[own] = found
        return found

    def through(
        self,
        tower: XlaTower,
        shape: _Shape,
        inputs: Arrays,
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        results = tower.run(self.padding.filled(inputs, shape.padded), outputs, timeout)
        return self.padding.own(results, inputs)
