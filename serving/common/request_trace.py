"""The record of one request, for the observers: metrics, logs and shadow traffic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from serving.common.errors import ServingError
from serving.common.request import Arrays, InferenceRequest, RequestContext
from serving.common.trace_context import NO_TRACE, TraceContext


@dataclass
class StateOfRequest:
    """How a store completed a request.

    Attributes:
        fingerprint: That of the definition of the state.
        names: The inputs that the store was asked for.
        as_of: The time of their values, as text.
        lag_seconds: By how much the state was behind its log; None if nothing follows a log.
        is_degraded: Whether the store did not answer, so that its inputs are missing.
        seconds: Time that the store and the values took.
    """

    fingerprint: str
    names: tuple[str, ...]
    as_of: str = ""
    lag_seconds: float | None = None
    is_degraded: bool = False
    seconds: float = 0.0


@dataclass(eq=False)
class RequestTrace:
    """The record of one request. The code that serves it fills it in.

    Args:
        context: The origin of the request.

    Attributes:
        message, response: The client's message and the answer; no response after an error.
        computed: The calls of signatures that answered it, with their outputs.
        error: The reason of a failure.
        model, version: The version that answered, or was to answer.
        label: The label that the request named, or by which a canary's share or the stable version
            was chosen for it; empty without one.
        is_served: Whether a model of that name is configured; other names are the client's
            invention, and no label of a metric.
        signature, inputs, results: The last call of a signature, its inputs and its outputs.
        rows: Its rows or requests: the first dimension of the inputs.
        candidates: Its scored rows: the rows, or the candidates of all requests.
        batch_rows: Rows of the batch that it was computed in.
        state: How a store completed the inputs; None without one.
        user_hits, user_misses: Rows with a user whose state was known, and not.
        is_admitted: Whether it was let into the queue of the concurrency limit.
        queue_seconds, runtime_seconds, seconds: Time of waiting, of computation, and in all.
        at: Time of arrival, in seconds since 1970.
        admission_seconds: Time of waiting before it was read.
        read_at, computed_at: Ends of these steps, on the clock of `started`; 0 before them.
        outgoing: The trace context for calls to other servers.
        span: Its span, with OpenTelemetry.
    """

    context: RequestContext
    message: Any = None
    response: Any = None
    computed: tuple[tuple[InferenceRequest, Arrays], ...] = ()
    error: ServingError | None = None
    model: str = ""
    version: int | None = None
    label: str = ""
    is_served: bool = False
    signature: str = ""
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    results: Mapping[str, np.ndarray] = field(default_factory=dict)
    rows: int = 0
    candidates: int = 0
    batch_rows: int = 0
    state: StateOfRequest | None = None
    user_hits: int = 0
    user_misses: int = 0
    is_admitted: bool = False
    queue_seconds: float = 0.0
    runtime_seconds: float = 0.0
    seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    at: float = field(default_factory=time.time)
    admission_seconds: float = 0.0
    read_at: float = 0.0
    computed_at: float = 0.0
    outgoing: TraceContext = NO_TRACE
    span: Any = None

    def __post_init__(self) -> None:
        self.outgoing = self.context.trace

    def detached(self) -> RequestTrace:
        """Returns a copy that does not keep the connection of the client in memory."""
        context = self.context
        origin = RequestContext(
            context.api, context.entrypoint, context.request_id, trace=self.outgoing
        )
        return replace(self, context=origin, span=None)


Observer = Callable[[RequestTrace], None]
