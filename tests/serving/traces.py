"""Traces of requests, for tests."""

from __future__ import annotations

from typing import Any

from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace

_CONTEXT = ("entrypoint", "request_id", "remaining", "is_active", "is_low_priority")


def trace(api: str = "Predict", entrypoint: str = "GRPC", **fields: Any) -> RequestTrace:
    """A trace with some fields of its own, and some of its context."""
    context = {name: fields.pop(name) for name in _CONTEXT if name in fields}
    return RequestTrace(RequestContext(api, entrypoint, **context), **fields)
