"""The threads that calls have, and how many of them are answered at once."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from serving.common.errors import DeadlineExceeded, ResourceExhausted
from serving.common.request_trace import RequestTrace

# gRPC gives a call its thread before its message has come, and a client may never send one. So
# there are more threads than are ever busy (made as they are needed), `Silent` ends some of those
# calls where they are many, and there are `Turns` for those whose request is there.
THREADS = 1000
# What takes no time is answered by these, however busy the others are: probes and refusals.
PROMPT_THREADS = 256
PROMPT = futures.ThreadPoolExecutor(PROMPT_THREADS, thread_name_prefix="prompt")


def answered_promptly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has gRPC answer a method's calls apart from those that compute."""
    vars(method)["experimental_thread_pool"] = PROMPT
    return method


_PATIENCE = 1.0  # seconds


class Silent:
    """Calls whose messages are still to come. Of too many, the oldest are ended.

    Args:
        threads: How many wait for messages, and do what follows: half of them are left for that.
        patience: Seconds that each may wait however many there are: in a burst of calls the
            messages of all are on their way.
    """

    def __init__(self, threads: int, patience: float = _PATIENCE) -> None:
        self._most, self._patience = threads // 2, patience
        self._lock = threading.Lock()  # guards all that follows
        self._calls: dict[grpc.ServicerContext, float] = {}  # since when, oldest first
        self._is_watched = False

    def message(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes | None:
        """The message of a call; None where it ends without one."""
        with self._lock:
            self._calls[context] = time.monotonic()
            is_first = len(self._calls) > self._most and not self._is_watched
            self._is_watched |= is_first
        if is_first:
            threading.Thread(target=self._watch, name="silent", daemon=True).start()
        try:
            return next(messages, None)
        finally:
            with self._lock:
                self._calls.pop(context, None)

    def _watch(self) -> None:
        """Ends those that are too many and too late, until there are few again."""
        while (late := self._take_late()) is not None:
            for context in late:
                context.cancel()
            time.sleep(self._patience / 10)

    def _take_late(self) -> list[grpc.ServicerContext] | None:
        with self._lock:
            excess = len(self._calls) - self._most
            if excess <= 0:
                self._is_watched = False
                return None
            end = time.monotonic() - self._patience
            oldest = itertools.islice(self._calls.items(), excess)
            late = [context for context, since in oldest if since <= end]
            for context in late:
                del self._calls[context]
            return late

    def end(self) -> None:
        """Ends those that wait."""
        with self._lock:
            calls = list(self._calls)
        for context in calls:
            context.cancel()


class Turns:
    """Lets so many requests be answered at once; the others wait for their turn, first come first.

    Args:
        at_once: How many.
        most: Requests at a time, those that wait among them; 0: any number.
    """

    def __init__(self, at_once: int, most: int = 0) -> None:
        self._most = most
        # Guards all that follows; held for a moment only.
        self._lock = threading.Lock()
        self._present = 0
        self._free = at_once
        self._waiting: deque[threading.Event] = deque()  # each is set once a turn is its own

    @contextlib.contextmanager
    def taken(self, trace: RequestTrace) -> Iterator[None]:
        """The block is the call's turn.

        Raises:
            ResourceExhausted: There are too many already.
            DeadlineExceeded, Cancelled: Nobody waits for the answer any more.
        """
        with self._lock:
            self.require_room()
            self._present += 1
            turn = None
            if self._free:
                self._free -= 1
            else:
                turn = threading.Event()
                self._waiting.append(turn)
        try:
            if turn is not None:
                self._wait(turn, trace)
            trace.context.require_client()
            yield
        finally:
            self._leave(turn)

    def require_room(self) -> None:
        """Raises where another request would be one too many.

        Raises:
            ResourceExhausted: It would.
        """
        if self._most and self._present >= self._most:
            raise ResourceExhausted(
                f"{self._most} requests are being answered already. Send fewer at a time."
            )

    def _wait(self, turn: threading.Event, trace: RequestTrace) -> None:
        started = time.perf_counter()
        is_its_turn = turn.wait(trace.context.remaining())
        trace.queue_seconds += time.perf_counter() - started
        if not is_its_turn:
            raise DeadlineExceeded("The deadline had passed before the computation began.")

    def _leave(self, turn: threading.Event | None) -> None:
        """Hands the turn on; who still waits for one has none, and goes."""
        with self._lock:
            self._present -= 1
            if turn is not None and not turn.is_set():
                self._waiting.remove(turn)
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
