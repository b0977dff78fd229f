"""Traces of requests, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace

_CONTEXT = (
    "entrypoint", "request_id", "method", "remaining", "has_own_deadline", "is_active",
    "is_low_priority",
)  # fmt: skip


def trace(api: str = "Predict", entrypoint: str = "GRPC", **fields: Any) -> RequestTrace:
    """A trace with some fields of its own, and some of its context."""
    context = {name: fields.pop(name) for name in _CONTEXT if name in fields}
    return RequestTrace(RequestContext(api, entrypoint, **context), **fields)


def deadline(seconds: float) -> Callable[[], float]:
    """The time until a deadline, as `remaining` of a context."""
    end = time.perf_counter() + seconds
    return lambda: end - time.perf_counter()
