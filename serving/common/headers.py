"""HTTP headers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

REQUEST_ID = "x-request-id"
PRIORITY, LOW = "x-priority", "low"  # such requests are refused first
STATE, DEGRADED = "x-state", "degraded"  # of an answer without the features of the store
PUSHBACK = "grpc-retry-pushback-ms"  # gRPC's clients retry after this time, if at all


def asks_low_priority(headers: Iterable[tuple[str, str]]) -> bool:
    """Returns whether a request is to be refused before others."""
    return (PRIORITY, LOW) in headers


def is_header(value: Any) -> bool:
    """Returns whether HTTP carries the text unchanged."""
    return isinstance(value, str) and value.isascii() and value.isprintable()
