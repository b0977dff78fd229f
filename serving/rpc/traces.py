"""The start of a call's trace."""

from __future__ import annotations

import functools

import grpc

from serving.common.headers import REQUEST_ID
from serving.common.request import LONGEST_SECONDS, RequestContext, request_id_of
from serving.common.request_trace import RequestTrace


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
        )
    )


def _remaining(context: grpc.ServicerContext) -> float | None:
    seconds = context.time_remaining()
    return None if seconds is None or seconds > LONGEST_SECONDS else seconds
