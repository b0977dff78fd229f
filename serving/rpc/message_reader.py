"""The message of each call: read here, where gRPC would harm the server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from serving.common.errors import Internal, ServingError, Unimplemented
from serving.inference.concurrency import PROMPT, PROMPT_THREADS, THREADS, Silent
from serving.rpc.drain import Refuse
from serving.rpc.servicers import trace_of


class Readable(grpc.ServerInterceptor):
    """Reads the message of each call; it must be the last of a server's interceptors.

    It answers INTERNAL to bytes that are no message, and UNIMPLEMENTED to none, as gRPC does. But
    gRPC keeps every call of the first kind for good, 15 kB each, and gives one whose message never
    comes a thread for as long as the client likes (`workers.Silent`).

    Args:
        refuse: Told of each call that is answered so.
    """

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
        self._handlers: dict[str, Any] = {}  # by method; what two threads make is the same
        self._silent, self._prompt_silent = Silent(THREADS), Silent(PROMPT_THREADS)

    def end_silent(self) -> None:
        """Ends the calls whose messages are still to come."""
        self._silent.end()
        self._prompt_silent.end()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        found = self._handlers.get(handler_call_details.method)
        if found is None:
            found = continuation(handler_call_details)
            if found is not None:  # else it is no method, and its name may be any
                path = handler_call_details.method
                found = self._handlers[path] = self._reads(found, path)
        return found

    def _reads(self, handler: Any, path: str) -> Any:
        """A handler that reads its message itself, which to gRPC is one of a stream."""
        if handler.request_streaming:
            return handler
        if handler.response_streaming:
            make, method = grpc.stream_stream_rpc_method_handler, handler.unary_stream
        else:
            make, method = grpc.stream_unary_rpc_method_handler, handler.unary_unary
        is_prompt = getattr(method, "experimental_thread_pool", None) is PROMPT
        silent = self._prompt_silent if is_prompt else self._silent

        @functools.wraps(method)  # and in the same threads
        def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            content = silent.message(messages, context)
            try:
                request = _read(handler.request_deserializer, content, path)
            except ServingError as error:
                self._refuse(trace_of(path.rpartition("/")[2], context), error)
                return context.abort(error.code, str(error))
            return method(request, context)

        return make(answer, None, handler.response_serializer)


def _read(deserializer: Callable[[bytes], Any], content: bytes | None, path: str) -> Any:
    if content is None:
        raise Unimplemented(f'"{path}" requires exactly one request message.')
    try:
        return deserializer(content)
    except Exception as error:  # protobuf's own, which has no name in a declared dependency
        raise Internal("Exception deserializing request!") from error
