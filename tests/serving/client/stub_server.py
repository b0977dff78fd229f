"""A gRPC server that answers with given bytes; as a program it imports nothing but gRPC."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, NamedTuple

import grpc


class Seen(NamedTuple):
    """A request as it arrived."""

    method: str
    request: bytes
    metadata: dict[str, str]


class Stub(grpc.GenericRpcHandler):
    """Answers each method by its name, and remembers what it was asked.

    Args:
        answers: Bytes of the answer by method, such as "Predict".
    """

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self.answers = answers
        self.seen: list[Seen] = []
        self.seconds = 0.0
        self.failures: list[grpc.StatusCode] = []  # of the next calls
        self.is_failing = False
        self.pushback = ""  # milliseconds, of the failures
        self.may_answer = threading.Event()  # what calls with the header x-held wait for
        self.server: grpc.Server
        self.port = 0

    def start(
        self, port: int = 0, credentials: grpc.ServerCredentials | None = None, *more: Any
    ) -> Stub:
        """Starts on a port, a free one by default, with further services (functions to add)."""
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
        self.server = grpc.server(futures.ThreadPoolExecutor(16), options=options)
        self.server.add_generic_rpc_handlers((self,))
        for add in more:
            add(self.server)
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self.server.add_insecure_port(address)
        else:
            self.port = self.server.add_secure_port(address, credentials)
        self.server.start()
        return self

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def service(self, details: Any) -> grpc.RpcMethodHandler | None:
        method = details.method.rpartition("/")[2]
        if method not in self.answers:
            return None
        metadata = dict(details.invocation_metadata)
        return grpc.unary_unary_rpc_method_handler(self._answer(method, metadata))

    def _answer(
        self, method: str, metadata: dict[str, str]
    ) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.seen.append(Seen(method, request, metadata))
            if self.pushback:
                context.set_trailing_metadata([("grpc-retry-pushback-ms", self.pushback)])
            if self.is_failing:
                context.abort(grpc.StatusCode.UNAVAILABLE, "The server is shutting down.")
            if self.failures:
                context.abort(self.failures.pop(0), "as the test wants it")
            time.sleep(self.seconds)
            if "x-held" in metadata:
                self.may_answer.wait(20)
            return self.answers[method]

        return answer


def main() -> None:
    stub = Stub({"Predict": bytes.fromhex(sys.argv[1])})
    stub.seconds = 0.005
    print(stub.start().port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
