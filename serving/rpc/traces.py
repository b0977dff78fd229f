"""The start of a call's trace."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import grpc

from serving.common.errors import ServingError, truncated
from serving.common.headers import PUSHBACK, REQUEST_ID, asks_low_priority
from serving.common.request import LONGEST_SECONDS, RequestContext, request_id_of
from serving.common.request_trace import RequestTrace
from serving.common.trace_context import TraceContext

Metadata = Iterable[tuple[str, str]]


def trace_of(method: str, context: grpc.ServicerContext, trailers: Metadata = ()) -> RequestTrace:
    """Starts the trace of a call.

    Args:
        method: The method with its service.
        context: The call. Its answer will carry the request id.
        trailers: Further metadata of the answer.
    """
    metadata = context.invocation_metadata()
    headers = dict(metadata)
    request_id = request_id_of(headers.get(REQUEST_ID))
    context.set_trailing_metadata(((REQUEST_ID, request_id), *trailers))
    method = truncated(method.removeprefix("/"))
    return RequestTrace(
        RequestContext(
            method.rpartition("/")[2],
            request_id=request_id,
            method=method,
            remaining=functools.partial(_remaining, context),
            is_active=context.is_active,
            is_low_priority=asks_low_priority(metadata),
            trace=TraceContext.read(headers),
        )
    )


def pushback(error: ServingError) -> Metadata:
    """Returns the metadata that say when to retry a call, for the error of a busy server."""
    if error.retry_after is None:
        return ()
    return ((PUSHBACK, str(max(1, round(1e3 * error.retry_after)))),)


def abort(context: grpc.ServicerContext, error: ServingError) -> Any:
    """Ends a call with an error; a busy server's says when to retry."""
    if trailers := pushback(error):
        context.set_trailing_metadata((*context.trailing_metadata(), *trailers))
    return context.abort(error.code, truncated(str(error)))


def _remaining(context: grpc.ServicerContext) -> float | None:
    seconds = context.time_remaining()
    return None if seconds is None or seconds > LONGEST_SECONDS else seconds
