"""The W3C trace context of a request: two headers that connect the spans of all services."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple

_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"
_FORM = re.compile(
    r"(?!ff|00.{54})"  # version 00 ends after 55 characters, later ones may go on
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?"
)


class TraceContext(NamedTuple):
    """The headers of a trace, to be passed on; empty without a trace."""

    traceparent: str = ""
    tracestate: str = ""

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> TraceContext:
        """Returns the context of a request by its headers; empty if they have no valid one."""
        parent = headers.get(_TRACEPARENT, "")
        if not isinstance(parent, str) or not _FORM.fullmatch(parent):
            return cls()
        return cls(parent, headers.get(_TRACESTATE, ""))

    @property
    def trace_id(self) -> str:
        """The id that all spans of the trace share; empty without a trace."""
        return self.traceparent[3:35]

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of a request that belongs to the trace."""
        pairs = ((_TRACEPARENT, self.traceparent), (_TRACESTATE, self.tracestate))
        return tuple(pair for pair in pairs if pair[1])


NO_TRACE = TraceContext()
# Of the request that this thread computes, for runtimes that call other servers.
COMPUTED = ContextVar("COMPUTED", default=NO_TRACE)


def active_headers() -> dict[str, str]:
    """Returns the headers of the program's active span; none without OpenTelemetry.

    A program with a span has imported OpenTelemetry; for others it need not be installed.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.propagate import inject

    headers: dict[str, str] = {}
    inject(headers)
    return headers
