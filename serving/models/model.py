"""One version of a model: its signatures, and the runtime that computes them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serving.common.errors import InvalidArgument, signature_not_found
from serving.common.request import Arrays, InferenceRequest
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import (
    DEFAULT_SIGNATURE,
    EXPLAINED_SIGNATURE,
    NEXT_ITEMS_SIGNATURE,
    RANK_FROM_STATE,
    RANK_SIGNATURE,
)
from serving.common.trace_context import COMPUTED
from serving.encoding.array_values import is_present
from serving.models.signature import Compute, Signature
from serving.runtimes.base import Runtime
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.saved_model import read_manifest

_NEED_EVENTS = (DEFAULT_SIGNATURE, NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE)


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
        if RANK_FROM_STATE in self._signatures:
            names = self._signatures[RANK_SIGNATURE].candidate_names
            self._signatures[RANK_FROM_STATE].candidate_names = names
        self._event_names = self._needed_events()
        row_signatures = [
            s for k, s in self._signatures.items() if k in (RANK_SIGNATURE, DEFAULT_SIGNATURE)
        ]
        self.features = {
            name: spec for one in row_signatures for name, spec in one.input_specs.items()
        }
        for signature in self._signatures.values():
            if self.takes_missing and not signature.takes_examples:
                signature.take_raw_values(self.features)

    def compute(self, request: InferenceRequest, trace: RequestTrace) -> dict[str, np.ndarray]:
        """Returns the outputs of a request by name; the trace receives what is computed.

        Raises:
            ServingError: The request does not fit the signature, or the computation failed.
        """
        signature = self.signature(request.signature)
        self._check_events(request)
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

    def _needed_events(self) -> tuple[str, ...]:
        """Returns the inputs of events, if the model scores from them alone.

        Without any event such a causal model has the score 0 for each item. Models without a
        manifest may do without.
        """
        signatures = self._signatures
        if self.manifest is None or self.manifest.get("scores_without_events"):
            return ()
        if not {NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE} <= signatures.keys():
            return ()
        return tuple(sorted(signatures[RANK_SIGNATURE].context_names))

    def _check_events(self, request: InferenceRequest) -> None:
        """Raises InvalidArgument if no row of a request has an event, and the model needs one."""
        names, inputs = self._event_names, request.inputs
        if not names or request.signature not in _NEED_EVENTS or not set(names) <= inputs.keys():
            return  # the signature names the inputs that are missing
        if not any(is_present(inputs[name]).any() for name in names):
            raise InvalidArgument(
                f"Feature {names[0]!r}: expected the events of the user, a list with one at "
                "least. Received: none. The model scores from events alone, also where the request "
                "names a user: for users without any, show the most popular items."
            )

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
