"""One call of the service: who waits for it, and what became of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from serving.common.errors import Cancelled, DeadlineExceeded, ServingError


def request_id_of(sent: str | None) -> str:
    """The caller's own id, where it has one that an answer can carry; else a new one."""
    return sent if sent and sent.isascii() and sent.isprintable() else uuid.uuid4().hex


def _forever() -> float | None:
    return None


def _always() -> bool:
    return True


@dataclass(eq=False)
class Call:
    """What is known of a call; filled in on its way, and shown to the observers at its end.

    Args:
        api: `Predict`, `Classify`, `Regress`, `MultiInference`, `Rank`, ...
        entrypoint: `GRPC`, `REST` or `WARMUP`.
        request_id: What the caller names it, or the server where he does not.
        remaining: Seconds until the caller gives up; None where he waits for ever.
        is_active: Whether he still waits.

    Attributes:
        request, response: The messages; no response where it failed.
        error: Why it failed.
        model, version, signature: What answered.
        is_served: Whether a model of that name is configured: the name is none that anybody may
            make up.
        rows: Rows or requests, the first dimension of the inputs.
        candidates: Rows that were scored: those, or the candidates of all requests.
        inputs, results: What was computed of, and the outputs, by name.
        batch_rows: Rows of the batch it was computed in.
        queue_seconds, runtime_seconds, seconds: Waiting, computing, all together.
        at: When it came, in seconds since 1970.
    """

    api: str
    entrypoint: str = "GRPC"
    request_id: str = ""
    remaining: Callable[[], float | None] = _forever
    is_active: Callable[[], bool] = _always
    request: Any = None
    response: Any = None
    error: ServingError | None = None
    model: str = ""
    version: int | None = None
    is_served: bool = False
    signature: str = ""
    rows: int = 0
    candidates: int = 0
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    results: Mapping[str, np.ndarray] = field(default_factory=dict)
    batch_rows: int = 0
    queue_seconds: float = 0.0
    runtime_seconds: float = 0.0
    seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    at: float = field(default_factory=time.time)

    def require_caller(self) -> None:
        """Raises where nobody waits for the answer any more, so that it is not computed."""
        remaining = self.remaining()
        if remaining is not None and remaining <= 0:
            raise DeadlineExceeded("The deadline had passed before the computation began.")
        if not self.is_active():
            raise Cancelled("The caller has gone.")


Observer = Callable[[Call], None]
