"""One version of a model: its signatures, and the runtime that computes them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serving.common.errors import signature_not_found
from serving.common.request import Arrays, InferenceRequest
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import DEFAULT_SIGNATURE, EXPLAINED_SIGNATURE, RANK_SIGNATURE
from serving.common.trace_context import COMPUTED
from serving.models.events import NeededEvents
from serving.models.signature import Compute, Signature
from serving.runtimes.base import Runtime
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.saved_model import read_manifest


class Model:
    """The signatures of one version, and their computation.

    Args:
        name: Name of the model.
        version: Its version.
        path: Folder of the version.
        runtime: Computes; the model closes it.

    Attributes:
        manifest: The manifest of an export of this project; None for other models.
        takes_missing: Whether it has missing values, and takes values of other types that fit, as
            exports of this project do.
        features: The inputs of rows, of candidates and of their context.
    """

    def __init__(self, name: str, version: int, path: Path, runtime: Runtime) -> None:
        self.name = name
        self.version = version
        self.path = path
        self.definitions = runtime.definitions
        self.manifest: Mapping[str, Any] | None = read_manifest(path)
        self.takes_missing = self.manifest is not None
        self._runtime = runtime
        self._signatures = {
            key: Signature(key, definition, _compute(runtime, key))
            for key, definition in self.definitions.items()
        }
        rows = self._signatures.get(DEFAULT_SIGNATURE)
        for key in (RANK_SIGNATURE, EXPLAINED_SIGNATURE):
            if rows is not None and key in self._signatures:
                self._signatures[key].share_candidates(rows)
        self._events = NeededEvents(self._signatures, self.manifest)
        known = [s for k, s in self._signatures.items() if k in (RANK_SIGNATURE, DEFAULT_SIGNATURE)]
        self.features = {name: spec for one in known for name, spec in one.input_specs.items()}
        for signature in self._signatures.values():
            if self.takes_missing and not signature.takes_examples:
                signature.take_raw_values(self.features)

    def compute(self, request: InferenceRequest, trace: RequestTrace) -> dict[str, np.ndarray]:
        """Returns the outputs of a request by name; the trace receives what is computed.

        Raises:
            ServingError: The request does not fit the signature, or the computation failed.
        """
        signature = self.signature(request.signature)
        self._events.check(request.signature, request.inputs)
        return signature.run(request.inputs, request.outputs, trace)

    def signature(self, key: str) -> Signature:
        """Returns the signature of this name."""
        signature = self._signatures.get(key)
        if signature is None:
            raise signature_not_found(key)
        return signature

    @property
    def signatures(self) -> Mapping[str, Signature]:
        return self._signatures

    def common_signature(self, signatures: Sequence[Signature]) -> Signature | None:
        """Returns a signature with the outputs of all of these, of the same input; or None."""
        for one in self._signatures.values():
            if all(one.covers(signature) for signature in signatures):
                return one
        return None

    @property
    def context_names(self) -> frozenset[str]:
        """The features that the candidates of a request share; none without `rank`."""
        rank = self._signatures.get(RANK_SIGNATURE)
        return frozenset() if rank is None else rank.context_names

    def prepare(self, before: Model | None) -> None:
        """Prepares for the requests that another version of this model receives."""
        runtime, other = self._runtime, before and before._runtime
        if isinstance(runtime, CompiledRuntime):
            runtime.prepare(other if isinstance(other, CompiledRuntime) else None)

    def close(self) -> None:
        """Frees the memory of the version, once no request runs."""
        self._runtime.close()


def _compute(runtime: Runtime, key: str) -> Compute:
    def compute(
        inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        trace.context.require_client()
        started, token = time.perf_counter(), COMPUTED.set(trace.outgoing)
        try:
            return runtime.run(key, inputs, outputs, trace.context.remaining())
        finally:
            COMPUTED.reset(token)
            trace.batch_rows = trace.candidates
            trace.runtime_seconds += time.perf_counter() - started

    return compute
