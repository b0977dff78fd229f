"""A request, independent of the transport that brought it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from serving.common.errors import Cancelled, DeadlineExceeded
from serving.common.trace_context import NO_TRACE, TraceContext

Arrays = Mapping[str, np.ndarray]
_IDS = random.Random()
# Without a deadline gRPC reports one of 292 million years, which overflows in other libraries.
LONGEST_SECONDS = 86_400.0


class ModelRef(NamedTuple):
    """The model that a request names, with a version, a label or neither."""

    name: str
    version: int | None = None
    label: str | None = None


class InferenceRequest(NamedTuple):
    """One call of a signature. gRPC, REST, warm-up, shadow traffic and the proxy all make it.

    Args:
        model: The model that the client named.
        signature: Name of the signature.
        inputs: An array for each input; strings are `object` arrays of bytes.
        outputs: Names of the outputs to compute.
    """

    model: ModelRef
    signature: str
    inputs: Arrays
    outputs: tuple[str, ...]


def request_id_of(sent: str | None) -> str:
    """Returns the client's id if a header can carry it, else a new one."""
    if sent and sent.isascii() and sent.isprintable():
        return sent
    return f"{_IDS.getrandbits(128):032x}"


def _no_deadline() -> float | None:
    return None


def _always() -> bool:
    return True


class RequestContext(NamedTuple):
    """The origin of a request, and its deadline.

    Args:
        api: `Predict`, `Classify`, `Regress`, `MultiInference` or `Rank`.
        entrypoint: `GRPC`, `REST`, `WARMUP` or `SHADOW`.
        request_id: The client's id, or one that the server made.
        method: The full method of gRPC, `tensorflow.serving.PredictionService/Predict` for
            example; over REST that of HTTP.
        remaining: Seconds until the deadline; None without one.
        has_own_deadline: Whether the client has set the deadline, and not an option of the server.
        is_active: Whether the client is still connected.
        is_low_priority: Whether it is refused before other requests.
        trace: The trace of the client's call.
    """

    api: str
    entrypoint: str = "GRPC"
    request_id: str = ""
    method: str = ""
    remaining: Callable[[], float | None] = _no_deadline
    has_own_deadline: bool = True
    is_active: Callable[[], bool] = _always
    is_low_priority: bool = False
    trace: TraceContext = NO_TRACE

    def require_client(self) -> None:
        """Raises if the deadline has passed or the client has disconnected."""
        remaining = self.remaining()
        if remaining is not None and remaining <= 0:
            raise DeadlineExceeded("The deadline had passed before the computation began.")
        if not self.is_active():
            raise Cancelled("The client has disconnected.")
