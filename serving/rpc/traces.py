"""The start of a call's trace."""

from __future__ import annotations

import functools
from typing import Any

import grpc

from serving.common.errors import ServingError, truncated
from serving.common.headers import LOW, PRIORITY, PUSHBACK, REQUEST_ID
from serving.common.request import LONGEST_SECONDS, RequestContext, request_id_of
from serving.common.request_trace import RequestTrace
from serving.common.trace_context import TraceContext


def trace_of(api: str, context: grpc.ServicerContext) -> RequestTrace:
    """Starts the trace of a call; the answer will carry its request id."""
    metadata = dict(context.invocation_metadata())
    request_id = request_id_of(metadata.get(REQUEST_ID))
    context.set_trailing_metadata([(REQUEST_ID, request_id)])
    return RequestTrace(
        RequestContext(
            api,
            request_id=request_id,
            remaining=functools.partial(_remaining, context),
            is_active=context.is_active,
            is_low_priority=metadata.get(PRIORITY) == LOW,
            trace=TraceContext.read(metadata),
        )
    )


def abort(context: grpc.ServicerContext, error: ServingError) -> Any:
    """Ends a call with an error; a busy server's says when to retry."""
    if error.retry_after is not None:
        pushback = (PUSHBACK, str(max(1, round(1e3 * error.retry_after))))
        context.set_trailing_metadata((*context.trailing_metadata(), pushback))
    return context.abort(error.code, truncated(str(error)))


def _remaining(context: grpc.ServicerContext) -> float | None:
    seconds = context.time_remaining()
    return None if seconds is None or seconds > LONGEST_SECONDS else seconds
