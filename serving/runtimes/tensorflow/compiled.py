"""TensorFlow whose busiest shapes are compiled by XLA.

TensorFlow goes over memory once for each operation; XLA makes one loop of many, which halves the
time of DIN's activation unit. But it compiles each shape anew, for about a second. So a shape is
compiled when computing it has taken longer than that, beside the requests. They would wait a tenth
of a second while a tower is added to TensorFlow's session: that is done before the version serves.

What is compiled depends on the signature alone, so that all servers of a fleet do the same: one
that takes lists, which models with a history do. The processor then takes this share of its time
without XLA (two cores, by turns; rows of `serving_default`, candidates of `rank`):

                          rows 1    16   64  256   candidates 10    50   200  1000
    DIN                     0.69  0.60 0.60 0.54            0.52  0.49  0.45  0.34
    DIN, encoded history    0.53  0.73 0.92 0.90            0.59  0.58  0.60  0.68
    AutoInt, no history     0.44  0.72 0.87 1.01            0.58  0.87  0.98  1.23

With `attention_ranker` it is 0.6 to 0.9 with a history, and 0.95 to 1.7 of fields alone; with
`mmoe` 0.75 to 0.95, and 0.95 to 1.2.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.background import SerialWorker
from serving.common.errors import DeadlineExceeded, FailedPrecondition, ServingError
from serving.runtimes.tensorflow.padding import Arrays, Padding, Sizes, padded, paddings
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.xla_tower import XlaTower

_LOGGER = logging.getLogger(__name__)
TOLERANCE = 1e-5
_MOST = 64  # shapes of a signature that XLA compiles: what it made is freed with the version
_PREPARE_SECONDS = 10.0  # a version serves so much later at most, for its predecessor's shapes


class CompiledRuntime:
    """A SavedModel in TensorFlow, whose `serving_default` and `rank` XLA compiles by shape.

    Strings, vocabularies and embeddings stay in TensorFlow, which makes all lists equally long.
    So a shape is a number of rows, and of candidates; they are padded with missing values, to the
    next of sixteen sizes an octave. A signature that takes no lists, or for which XLA gives other
    scores, stays in TensorFlow.

    Args:
        path: The SavedModel's folder, an export of this project: rows and candidates do not change
            each other's scores.
        tensorflow: The same folder in TensorFlow; it is closed with this.
        compile_after: Seconds that a shape has taken to compute before it is compiled.
    """

    def __init__(self, path: Path, tensorflow: TensorFlowSession, compile_after: float) -> None:
        self.definitions = tensorflow.definitions
        self._tensorflow = tensorflow
        self._compile_after = compile_after
        self._path = path
        self._signatures = {
            key: _Signature(padding)
            for key, padding in paddings(self.definitions).items()
            if padding.takes_lists
        }
        self._lock = threading.Lock()
        self._background = SerialWorker("compile")

    def run(
        self, key: str, inputs: Arrays, outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says; what is compiled is not stopped in the middle."""
        signature = self._signatures.get(key)
        if signature is None:
            return self._tensorflow.run(key, inputs, outputs, timeout)
        shape = signature.shape_of(inputs)
        shape.requests += 1
        tower, failure = shape.tower, None
        if tower is not None:
            try:
                return signature.through(tower, shape, inputs, outputs, timeout)
            except DeadlineExceeded:
                raise
            except ServingError as error:
                failure = error
        started = time.perf_counter()
        found = self._tensorflow.run(key, inputs, outputs, timeout)  # it may refuse the values too
        if failure is not None:
            shape.tower = None
            _LOGGER.warning("What XLA compiled of %s is not used any more: %s", key, failure)
        if not shape.is_decided:
            shape.seconds += time.perf_counter() - started
            if shape.seconds >= self._compile_after:
                self._decide(key, shape, inputs)
        return found

    def compiled(self, key: str) -> int:
        """How many shapes of a signature are compiled."""
        return sum(shape.tower is not None for shape in self._signatures[key].known())

    def prepare(self, before: CompiledRuntime | None) -> None:
        """Adds towers and compiles shapes before requests come, which would wait for the former.

        It takes some seconds at most: a shape that takes longer, because requests leave it little
        of the processors, is compiled beside them, and those after it once they are asked for.

        Args:
            before: The version that serves meanwhile: the signatures that it has compiled get
                their towers, and its shapes are compiled, those of most requests first. Where it
                has compiled none that take the same inputs, all get their towers.
        """
        definitions = {key: self.definitions[key] for key in self._signatures}
        shapes = [] if before is None else before._busiest(definitions)
        end = time.monotonic() + _PREPARE_SECONDS
        with contextlib.suppress(DeadlineExceeded):
            self._background.run(functools.partial(self._get_ready, shapes, end), _PREPARE_SECONDS)

    def _get_ready(self, shapes: Sequence[tuple[str, _Shape]], end: float) -> None:
        for key in dict(shapes) or self._signatures:
            self._add_tower(key)
        self._take_over(shapes, end)

    def _take_over(self, shapes: Sequence[tuple[str, _Shape]], end: float) -> None:
        for key, shape in shapes:
            if shape.sample is not None and time.monotonic() < end:
                own = self._signatures[key].shape_of(shape.sample)
                own.requests += shape.requests // 2  # none in the end, where nobody asks any more
                if self._is_mine(key, own):
                    self._compile(key, own, shape.sample)

    def _busiest(
        self, definitions: Mapping[str, meta_graph_pb2.SignatureDef]
    ) -> list[tuple[str, _Shape]]:
        """What is compiled, that of most requests first, where another version takes the same."""
        shapes = [
            (key, shape)
            for key, definition in definitions.items()
            if key in self._signatures and _takes(self.definitions[key]) == _takes(definition)
            for shape in self._signatures[key].known()
            if shape.tower is not None and shape.requests
        ]
        return sorted(shapes, key=lambda each: -each[1].requests)

    def close(self) -> None:
        """Frees what it holds, once nothing is compiled any more."""
        self._background.stop()
        self._signatures = {}
        self._tensorflow.close()

    def _decide(self, key: str, shape: _Shape, inputs: Arrays) -> None:
        if self._is_mine(key, shape):
            self._background.schedule(lambda: self._compile(key, shape, inputs))

    def _is_mine(self, key: str, shape: _Shape) -> bool:
        """Whether the caller decides on a shape: nobody has yet, and not on too many others."""
        with self._lock:
            if shape.is_decided:
                return False
            shape.is_decided = True
            return sum(one.is_decided for one in self._signatures[key].known()) <= _MOST

    def _add_tower(self, key: str) -> None:
        signature = self._signatures[key]
        if signature.tower is not None or signature.has_failed:
            return
        try:
            signature.tower = XlaTower(self._path, self._tensorflow, key)
        except Exception as error:  # whatever a graph has that cannot be cut
            signature.fail(key, error)

    def _compile(self, key: str, shape: _Shape, inputs: Arrays) -> None:
        signature, started = self._signatures[key], time.perf_counter()
        self._add_tower(key)
        if signature.tower is None:
            return
        try:
            self._try(key, signature.tower, shape, inputs)
        except Exception as error:  # whatever a graph has that does not compile
            signature.fail(key, error)
            return
        shape.sample, shape.tower = inputs, signature.tower
        seconds = time.perf_counter() - started
        _LOGGER.info("Signature %s is compiled for sizes %s in %.1f s", key, shape.sizes, seconds)

    def _try(self, key: str, tower: XlaTower, shape: _Shape, inputs: Arrays) -> None:
        """Compiles a shape; raises where scores differ."""
        signature, outputs = self._signatures[key], list(self.definitions[key].outputs)
        filled = signature.padding.filled(inputs, shape.sizes)
        missing = signature.padding.missing(filled)
        tower.require_fixed(filled, missing)
        for request in (missing, inputs):
            found = signature.through(tower, shape, request, outputs, None)
            _require_same(found, self._tensorflow.run(key, request, outputs, None))


def _takes(definition: meta_graph_pb2.SignatureDef) -> dict[str, tuple[int, int]]:
    """Types and numbers of axes of a signature's inputs."""
    return {
        name: (info.dtype, len(info.tensor_shape.dim)) for name, info in definition.inputs.items()
    }


def _require_same(found: Arrays, expected: Arrays) -> None:
    for name, array in expected.items():
        if found[name].shape != array.shape or not np.allclose(
            found[name], array, TOLERANCE, TOLERANCE, equal_nan=True
        ):
            raise FailedPrecondition(f"the output {name} would be another than before")


class _Shape:
    """Requests that are padded to the same sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.requests = 0
        self.seconds = 0.0  # that they took in TensorFlow
        self.is_decided = False
        self.tower: XlaTower | None = None  # what computes them
        self.sample: Arrays | None = None  # one of them, where they are compiled


class _Signature:
    """The requests of a signature, by shape."""

    def __init__(self, padding: Padding) -> None:
        self.padding = padding
        self.tower: XlaTower | None = None
        self.has_failed = False
        self._shapes: dict[Sizes, _Shape] = {}

    def known(self) -> list[_Shape]:
        return list(self._shapes.values())

    def shape_of(self, inputs: Arrays) -> _Shape:
        sizes = padded(self.padding.sizes(inputs))
        return self._shapes.get(sizes) or self._shapes.setdefault(sizes, _Shape(sizes))

    def fail(self, key: str, error: Exception) -> None:
        """Nothing of it is compiled any more: what differs once may do so again."""
        self.tower, self.has_failed = None, True
        for shape in self.known():
            shape.tower = None
        reason = " ".join(str(error).split())
        _LOGGER.info("Signature %s is not compiled: %s", key, reason[:300])

    def through(
        self,
        tower: XlaTower,
        shape: _Shape,
        inputs: Arrays,
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        results = tower.run(self.padding.filled(inputs, shape.sizes), outputs, timeout)
        return self.padding.own(results, self.padding.sizes(inputs))
