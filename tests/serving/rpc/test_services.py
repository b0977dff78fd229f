"""Errors become codes and messages, and keep no request in memory."""

from __future__ import annotations

import contextlib
import gc
import weakref

import grpc

from serving.common.errors import InvalidArgument
from serving.rpc.services import rpc
from tests.serving.traces import trace


class _Tensor:
    """Stands for the large part of a request."""


class _Context:
    def abort(self, code: grpc.StatusCode, words: str) -> None:
        self.answer = code, words
        raise RuntimeError("gRPC ends the call")


@rpc
def _fail(service: None, request: _Tensor, context: _Context) -> None:
    """Fails as the service does, which passes the call to its observers first."""
    call = trace("Predict", message=request)
    try:
        raise InvalidArgument("too many rows")
    except InvalidArgument as error:
        call.error = error
    raise call.error


def test_rejected_request_is_freed_without_a_collection() -> None:
    context, tensor = _Context(), _Tensor()
    kept = weakref.ref(tensor)
    gc.disable()
    try:
        with contextlib.suppress(RuntimeError):
            _fail(None, tensor, context)
        del tensor
        assert kept() is None
    finally:
        gc.enable()
    assert context.answer == (grpc.StatusCode.INVALID_ARGUMENT, "too many rows")
