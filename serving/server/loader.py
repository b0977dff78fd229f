"""Loads versions: runtime, batching, limits and warm-up."""

from __future__ import annotations

import functools
import logging
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from serving.batching.arrays import fill_rows
from serving.batching.batched import Batched
from serving.batching.chunking import Chunked
from serving.batching.scheduler import BatchScheduler
from serving.common.errors import InvalidArgument
from serving.common.request import Arrays, RequestContext
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
from serving.config.files import read_batching_parameters
from serving.encoding.raw_values import missing_value
from serving.inference.model_states import ModelStates
from serving.inference.service import replay
from serving.inference.state_inputs import StateInputs
from serving.inference.user_states import UserStates
from serving.models.model import Model
from serving.models.signature import Compute, Signature
from serving.models.version_source import FolderSource, VersionSource
from serving.models.warmup import warm_up
from serving.runtimes.tensorflow.saved_model import is_ours

_LOGGER = logging.getLogger(__name__)
_OWN_BATCHING = "batching_params.pbtxt"
_MAX_CHUNK = 1000  # candidates; with a long history each they take a hundred megabytes


@dataclass(frozen=True)
class LoadOptions:
    """Options of a `Loader`.

    Args:
        source: Opens versions: from folders, or of a backend.
        batching: Parameters of batching; None computes each request alone.
        reads_own_batching: Whether to read `batching_params.pbtxt` of each version.
        warmup_iterations: Number of warm-up passes; 0 for none.
        max_candidates: Rows or candidates that a request may have.
        user_states: Users whose states are kept, for each version that has states.
        state: The store that completes requests; None for none.
        warmed: Called after a warm-up, with the version's folder, the seconds, and whether it
            succeeded.
    """

    source: VersionSource = field(default_factory=FolderSource)
    batching: BatchingParameters | None = None
    reads_own_batching: bool = False
    warmup_iterations: int = 1
    max_candidates: int = 100_000
    user_states: int = 0
    state: ModelStates | None = None
    report_warmup: Callable[[str, float, bool], None] | None = None


_DEFAULTS = LoadOptions()


class Loader:
    """Loads versions for a `ModelManager`.

    Args:
        options: Options for all versions.
    """

    def __init__(self, options: LoadOptions = _DEFAULTS) -> None:
        self._options = options
        self._newest = weakref.WeakValueDictionary[str, Model]()  # by model name
        self._scheduler = (
            None if options.batching is None else BatchScheduler(options.batching.num_batch_threads)
        )

    def __call__(self, name: str, version: int, path: Path) -> Model:
        """Loads and warms up a version.

        Raises:
            ServingError: The version cannot be loaded, or its warm-up fails.
        """
        state_inputs = StateInputs.of(path, self._options.state)  # before memory is taken
        model = Model(name, version, path, self._options.source.open(name, version, path))
        try:
            self._prepare(model, state_inputs)
        except BaseException:
            model.close()
            raise
        self._newest[name] = model
        return model

    def _prepare(self, model: Model, state_inputs: StateInputs | None) -> None:
        parameters = self._parameters(model.path)
        states = UserStates.of(model, self._options.user_states)
        for signature in model.signatures.values():
            self._guard(signature, parameters, is_ours(model.path))
            if states is not None:
                states.serve(signature)
        if state_inputs is not None:
            state_inputs.add(model)
        for signature in model.signatures.values():
            signature.wrap(functools.partial(_limited, limit=self._options.max_candidates))
        if self._options.warmup_iterations:
            self._warm_up(model, parameters)
        model.prepare(self._newest.get(model.name))

    def _guard(
        self, signature: Signature, parameters: BatchingParameters | None, takes_missing: bool
    ) -> None:
        """Adds batching and chunks to a signature."""
        size, splits = _MAX_CHUNK, bool(signature.candidate_names)
        if self._scheduler is not None and parameters is not None:
            size = parameters.execution_size
            splits = splits or parameters.enable_large_batch_splitting
            signature.wrap(
                functools.partial(
                    Batched,
                    signature,
                    scheduler=self._scheduler,
                    parameters=parameters,
                    fill=missing_value if takes_missing else None,
                )
            )
        if (splits and signature.is_batched) or signature.takes_examples_apart:
            signature.wrap(functools.partial(Chunked, signature, size=size))

    def _parameters(self, path: Path) -> BatchingParameters | None:
        file = path / _OWN_BATCHING
        if self._options.batching is not None and self._options.reads_own_batching:
            return read_batching_parameters(str(file)) if file.is_file() else None
        return self._options.batching

    def _warm_up(self, model: Model, parameters: BatchingParameters | None) -> None:
        started, succeeded, count = time.perf_counter(), False, 0
        rows: dict[str, Arrays] = {}

        def answer(request: object) -> None:
            trace = replay(model, request)
            if trace.signature:  # empty for a request without tasks
                rows.setdefault(trace.signature, trace.inputs)

        def warm_sizes() -> None:
            if parameters is not None:
                _warm_sizes(model, rows, parameters.allowed_batch_sizes)

        try:
            is_beside_requests = bool(self._newest)
            count = warm_up(
                model, answer, self._options.warmup_iterations, is_beside_requests, warm_sizes
            )
            succeeded = True
        finally:
            seconds = time.perf_counter() - started
            if self._options.report_warmup is not None and (count or not succeeded):
                self._options.report_warmup(str(model.path), seconds, succeeded)
        _LOGGER.info(
            "Version %d of model %s: warm-up with %d requests took %.1f s",
            model.version, model.name, count, seconds,
        )  # fmt: skip


def _warm_sizes(model: Model, rows: Mapping[str, Arrays], sizes: Sequence[int]) -> None:
    """Computes a batch of every allowed size from rows of the warm-up file."""
    for key, inputs in rows.items():
        signature = model.signature(key)
        if signature.is_batched and not signature.candidate_names:
            for size in sizes:
                one = {name: array[:1] for name, array in inputs.items()}
                outputs = tuple(signature.definition.outputs)
                trace = RequestTrace(RequestContext("Predict", "WARMUP"))
                signature.run(fill_rows(one, size), outputs, trace)


def _limited(compute: Compute, limit: int) -> Compute:
    def checked(
        inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        if trace.candidates > limit:
            raise InvalidArgument(
                f"A request may have {limit} rows or candidates. Received: {trace.candidates}. "
                "Send several requests."
            )
        return compute(inputs, outputs, trace)

    return checked
