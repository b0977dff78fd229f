"""Sends malformed requests, many at a time, and notes what became of each."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc

from tests.serving.fuzz.cases import Case, Outcome, Way
from tests.serving.fuzz.process import ServerProcess
from tests.serving.fuzz.requests import STREAMS

Note = Callable[[Outcome], None]
_IN_FLIGHT = 24  # calls of one thread
_LINGERING = 24  # connections of one thread that stay open
_PATIENCE = 60.0  # seconds for the answer to a whole request
_GLANCE = 0.05  # seconds for what answers garbage
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
# Without compression, as gRPC's own server writes it.
_GRPC_STATUS = re.compile(rb"grpc-status.(\d{1,2})(?:.{0,2}grpc-message.([ -~]+))?", re.DOTALL)
_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


class Sender:
    """Sends the requests of one thread.

    Args:
        server: Where to.
        note: Told of each outcome.
    """

    def __init__(self, server: ServerProcess, note: Note) -> None:
        self._server = server
        self._note = note
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options)
        self._room = threading.BoundedSemaphore(_IN_FLIGHT)
        self._lingering: deque[socket.socket] = deque()

    def send(self, case: Case) -> None:
        """Sends a request; the answer to a call may come later."""
        if case.way == Way.GRPC:
            self._call(case)
        elif case.way == Way.HTTP:
            self._note(self._ask(case))
        else:
            self._note(self._pour(case))

    def close(self) -> None:
        """Waits for what is under way."""
        for _ in range(_IN_FLIGHT):
            self._room.acquire()
        self._channel.close()
        while self._lingering:
            self._lingering.popleft().close()

    def _call(self, case: Case) -> None:
        self._room.acquire()
        if case.method in STREAMS:
            self._room.release()
            self._note(self._stream(case))
            return
        call = self._channel.unary_unary(case.method)
        future = call.future(case.payload, timeout=case.timeout, metadata=self._metadata(case))
        future.add_done_callback(lambda done: self._called(case, done))

    def _metadata(self, case: Case) -> tuple[tuple[str, str], ...]:
        if not self._server.token or case.metadata:
            return case.metadata
        return (("authorization", f"Bearer {self._server.token}"),)

    def _called(self, case: Case, done: Any) -> None:
        self._room.release()
        self._note(Outcome(case, done.code().name, done.details() or ""))

    def _stream(self, case: Case) -> Outcome:
        """The first answer of a stream, which is then left."""
        kind = self._channel.stream_stream
        answers = kind(case.method)(
            iter((case.payload,)), timeout=case.timeout, metadata=self._metadata(case)
        )
        try:
            next(answers)
        except grpc.RpcError:
            return Outcome(case, answers.code().name, answers.details() or "")
        except StopIteration:
            pass
        answers.cancel()
        return Outcome(case, "OK")

    def _ask(self, case: Case) -> Outcome:
        """A whole HTTP request, and its answer up to the end of the connection."""
        end = b"\r\n\r\n"
        head, _, body = case.payload.partition(end)
        token = f"\r\nAuthorization: Bearer {self._server.token}" if self._server.token else ""
        whole = head + token.encode() + b"\r\nConnection: close" + end + body
        with socket.create_connection(("127.0.0.1", self._server.rest_port), _PATIENCE) as found:
            try:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    found.sendall(whole)
                answer = _read(found)
            except TimeoutError:
                return Outcome(case, "no answer")
        statuses = _STATUS.findall(answer)
        if not statuses:
            return Outcome(case, "closed", answer[:200].decode(errors="replace"))
        return Outcome(case, statuses[-1].decode(), answer[-300:].decode(errors="replace"))

    def _pour(self, case: Case) -> Outcome:
        """Bytes that make no request, and what comes back at once."""
        port = self._server.grpc_port if case.way == Way.TO_GRPC else self._server.rest_port
        found = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        answer = b""
        try:
            found.sendall(case.payload)
            found.settimeout(_GLANCE)
            answer = found.recv(65536)
        except TimeoutError:
            pass
        except OSError:
            found.close()
            return Outcome(case, "closed")
        if case.lingers:
            self._lingering.append(found)
            if len(self._lingering) > _LINGERING:
                self._lingering.popleft().close()
        else:
            found.close()
        if calls := _GRPC_STATUS.findall(answer):
            number, details = calls[-1]
            return Outcome(case, _NAMES.get(int(number), "UNKNOWN"), details.decode())
        statuses = _STATUS.findall(answer)
        return Outcome(case, statuses[-1].decode() if statuses else "no code")


def _read(found: socket.socket) -> bytes:
    answer = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := found.recv(65536):
            answer += piece
    return bytes(answer)
