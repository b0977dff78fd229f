"""The headers of a trace."""

from __future__ import annotations

import pytest

from serving.common.trace_context import NO_TRACE, TraceContext

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("parent", [PARENT, f"00-{TRACE}-{SPAN}-00", f"01-{TRACE}-{SPAN}-01-new"])
def test_valid_headers_are_passed_on(parent: str) -> None:
    found = TraceContext.read({"traceparent": parent, "tracestate": "a=1"})
    assert found.trace_id == TRACE
    assert found.headers == (("traceparent", parent), ("tracestate", "a=1"))
    assert TraceContext.read({"traceparent": parent}).headers == (("traceparent", parent),)


@pytest.mark.parametrize(
    "parent",
    [
        "", "x", TRACE, PARENT.upper(), f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"{PARENT}\n", f"00-{TRACE}-{SPAN}",
        f"{PARENT}-new", f"{PARENT}-",
    ],
)  # fmt: skip
def test_invalid_headers_are_no_trace(parent: str) -> None:
    found = TraceContext.read({"traceparent": parent, "tracestate": "a=1"})
    assert (found, found.trace_id, found.headers) == (NO_TRACE, "", ())
