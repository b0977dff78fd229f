"""TensorFlow whose signature `rank` is compiled by XLA, for the shapes that take the most time.

TensorFlow passes over memory once for each operation; XLA fuses many operations into one loop.
Time with XLA as a share of the time without it, on two cores, by the number of candidates:

                              10    50   200  1000
    DIN                     0.52  0.49  0.45  0.34
    DIN, encoded history    0.59  0.58  0.60  0.68
    AutoInt, no history     0.58  0.87  0.98  1.23

So only models with a history are compiled. That depends on the signature alone, so that all
all servers behave the same. XLA takes about a second for each shape: a shape is compiled in
the background once requests of that shape have taken longer than that.
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
from serving.common.signature_names import RANK_SIGNATURE
from serving.runtimes.tensorflow.padding import Arrays, RankPadding, Sizes, padded_sizes
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.xla_tower import XlaTower

_LOGGER = logging.getLogger(__name__)
_TOLERANCE = 1e-5
_MAX_SHAPES = 64  # of a version, which holds about 2 MB for each until it is unloaded
_PREPARE_SECONDS = 10.0  # the longest that a new version waits for its predecessor's shapes


class CompiledRuntime:
    """A SavedModel in TensorFlow whose signature `rank` XLA compiles by shape.

    A shape is a number of rows and of candidates. Requests are padded with missing values to the
    next of sixteen sizes an octave. Strings, vocabularies and embeddings stay in TensorFlow. If
    XLA cannot compile the signature, or its scores differ, TensorFlow computes all of it.

    Args:
        path: The SavedModel's folder, an export of this project: its rows and candidates do not
            change each other's scores.
        tensorflow: The same folder in TensorFlow; it is closed with this.
        padding: Pads the requests of `rank`.
        compile_after: Seconds that requests of a shape take before the shape is compiled.
    """

    def __init__(
        self,
        path: Path,
        tensorflow: TensorFlowSession,
        padding: RankPadding,
        compile_after: float,
    ) -> None:
        self.definitions = tensorflow.definitions
        self._path = path
        self._tensorflow = tensorflow
        self._padding = padding
        self._compile_after = compile_after
        self._tower: XlaTower | None = None
        self._has_failed = False
        self._shapes: dict[Sizes, _Shape] = {}
        self._lock = threading.Lock()  # guards `is_decided` of the shapes
        self._background = SerialWorker("compile", has_low_priority=True)

    def run(
        self, key: str, inputs: Arrays, outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Returns outputs by name, as `Runtime` says; a compiled tower ignores the timeout."""
        if key != RANK_SIGNATURE:
            return self._tensorflow.run(key, inputs, outputs, timeout)
        shape = self._shape_of(inputs)
        shape.requests += 1
        tower, failure = shape.tower, None
        if tower is not None:
            try:
                return self._compute(tower, shape, inputs, outputs, timeout)
            except DeadlineExceeded:
                raise
            except ServingError as error:
                failure = error
        started = time.perf_counter()
        results = self._tensorflow.run(key, inputs, outputs, timeout)  # may reject the inputs too
        if failure is not None:
            shape.tower = None
            _LOGGER.warning("Stopped using XLA for sizes %s of %s: %s", shape.sizes, key, failure)
        if not shape.is_decided:
            shape.seconds += time.perf_counter() - started
            if shape.seconds >= self._compile_after and self._claim(shape):
                self._background.schedule(lambda: self._compile(shape, inputs))
        return results

    @property
    def compiled(self) -> list[Sizes]:
        """The sizes that are compiled, in the order of their first requests."""
        return [shape.sizes for shape in self._all_shapes() if shape.tower is not None]

    def prepare(self, before: CompiledRuntime | None) -> None:
        """Adds the tower, and compiles the shapes that the version before has compiled.

        Requests would wait while the tower is added, so this is called before they come. It
        returns after ten seconds at most; a shape in progress is then compiled beside the requests.
        Without a version before, clients wait for this one, so all of it is done beside them.

        Args:
            before: The version that serves now. Its busiest shapes come first.
        """
        if before is None:
            self._background.schedule(self._add_tower)
            return
        shapes = before._busiest(self.definitions[RANK_SIGNATURE])
        end = time.monotonic() + _PREPARE_SECONDS
        with contextlib.suppress(DeadlineExceeded):
            self._background.run(functools.partial(self._prepare, shapes, end), _PREPARE_SECONDS)

    def close(self) -> None:
        """Frees the session, once no shape is being compiled."""
        self._background.stop()
        self._tower, self._shapes = None, {}
        self._tensorflow.close()

    def _all_shapes(self) -> list[_Shape]:
        return list(self._shapes.values())

    def _shape_of(self, inputs: Arrays) -> _Shape:
        sizes = padded_sizes(self._padding.sizes(inputs))
        return self._shapes.get(sizes) or self._shapes.setdefault(sizes, _Shape(sizes))

    def _compute(
        self,
        tower: XlaTower,
        shape: _Shape,
        inputs: Arrays,
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        results = tower.run(self._padding.pad(inputs, shape.sizes), outputs, timeout)
        return self._padding.unpad(results, self._padding.sizes(inputs))

    def _prepare(self, shapes: Sequence[_Shape], end: float) -> None:
        self._add_tower()
        for shape in shapes:
            if shape.sample is not None and time.monotonic() < end:
                new = self._shape_of(shape.sample)
                new.requests += shape.requests // 2  # so that unused shapes are dropped in the end
                if self._claim(new):
                    self._compile(new, shape.sample)

    def _busiest(self, definition: meta_graph_pb2.SignatureDef) -> list[_Shape]:
        """Returns the compiled shapes, most requests first, for a signature of the same inputs."""
        if _inputs_of(self.definitions[RANK_SIGNATURE]) != _inputs_of(definition):
            return []
        shapes = [one for one in self._all_shapes() if one.tower is not None and one.requests]
        return sorted(shapes, key=lambda one: -one.requests)

    def _claim(self, shape: _Shape) -> bool:
        """Returns True to one caller for each shape, while there are few of them."""
        with self._lock:
            if shape.is_decided:
                return False
            shape.is_decided = True
            return sum(one.is_decided for one in self._all_shapes()) <= _MAX_SHAPES

    def _add_tower(self) -> None:
        if self._tower is None and not self._has_failed:
            try:
                self._tower = XlaTower(self._path, self._tensorflow, RANK_SIGNATURE)
            except Exception as error:  # a graph may hold anything
                self._give_up(error)

    def _compile(self, shape: _Shape, inputs: Arrays) -> None:
        started = time.perf_counter()
        self._add_tower()
        if self._tower is None:
            return
        try:
            self._check(self._tower, shape, inputs)
        except Exception as error:  # XLA may fail in any way
            self._give_up(error)
            return
        shape.sample, shape.tower = inputs, self._tower
        _LOGGER.info(
            "Compiled sizes %s of signature %s in %.1f s",
            shape.sizes, RANK_SIGNATURE, time.perf_counter() - started,
        )  # fmt: skip

    def _check(self, tower: XlaTower, shape: _Shape, inputs: Arrays) -> None:
        """Compiles a shape; raises if its scores differ from TensorFlow's."""
        outputs = list(self.definitions[RANK_SIGNATURE].outputs)
        padded = self._padding.pad(inputs, shape.sizes)
        missing = self._padding.missing(padded)
        tower.require_fixed(padded, missing)
        for request in (missing, inputs):
            results = self._compute(tower, shape, request, outputs, None)
            _require_equal(results, self._tensorflow.run(RANK_SIGNATURE, request, outputs, None))

    def _give_up(self, error: Exception) -> None:
        """Stops compiling this version, as other values may fail too."""
        self._tower, self._has_failed = None, True
        for shape in self._all_shapes():
            shape.tower = None
        reason = " ".join(str(error).split())
        _LOGGER.info("Signature %s is not compiled: %s", RANK_SIGNATURE, reason[:300])


class _Shape:
    """Requests that are padded to the same sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.requests = 0
        self.seconds = 0.0  # in TensorFlow
        self.is_decided = False
        self.tower: XlaTower | None = None  # None until the shape is compiled
        self.sample: Arrays | None = None  # a request to compile the next version with


def _inputs_of(definition: meta_graph_pb2.SignatureDef) -> Mapping[str, tuple[int, int]]:
    """Returns types and numbers of axes of a signature's inputs."""
    return {
        name: (info.dtype, len(info.tensor_shape.dim)) for name, info in definition.inputs.items()
    }


def _require_equal(results: Arrays, expected: Arrays) -> None:
    for name, array in expected.items():
        if results[name].shape != array.shape or not np.allclose(
            results[name], array, _TOLERANCE, _TOLERANCE, equal_nan=True
        ):
            raise FailedPrecondition(f"the output {name} differs from TensorFlow's")
