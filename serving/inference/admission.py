"""Which requests are served, and how many at once: one rule for gRPC, REST and batching."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator

from serving.common.errors import DeadlineExceeded, too_late, too_many
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.config.server_config import CPUS

_MEMORY = 1.0  # seconds of work, by which the pace of older answers counts a third
_PATIENCE = 5.0  # seconds of a client without a deadline, as of this project's client
_NORMAL, _LOW = 0.5, 0.25  # shares of a client's time that a request may take; the rest is reserve
_FORGET = 0.01  # share by which each request draws the patience towards its own


class Admission:
    """Serves a few requests at once; the others wait, or are refused.

    A request that joins n others is answered after about n times the recent time between two
    answers (Little's law). It is refused at once if that is more than half of the time that its
    client waits; with a low priority, a quarter. So the queue is as long as it is useful: who
    waits in it is answered in time, and who is refused can go elsewhere.

    Args:
        at_once: Requests that are served at once.
        most: Requests at a time, those that wait included. Defaults to 0: any number.

    Attributes:
        working: Requests that are served.
        waiting: Requests that wait.
    """

    def __init__(self, at_once: int, most: int = 0) -> None:
        self._most = most
        self._free = min(at_once, CPUS)  # so many are never refused by their time
        self._permits = threading.Semaphore(at_once)
        self._lock = threading.Lock()  # guards all that follows
        self._present = 0
        self.working = 0
        self._since = time.perf_counter()  # of the last answer, or of the first request after it
        self._busy = self._answers = 0.0  # seconds and answers; older ones count less
        self._longest = 0.0  # seconds that recent clients wait, at most

    @property
    def waiting(self) -> int:
        return self._present - self.working

    @contextlib.contextmanager
    def acquire(self, trace: RequestTrace) -> Iterator[None]:
        """Waits for a permit, and holds it during the block.

        Raises:
            ResourceExhausted: The answer would come too late, or too many requests wait.
            DeadlineExceeded, Cancelled: The client no longer waits.
        """
        self._enter(trace)
        is_served = False
        try:
            started = time.perf_counter()
            is_acquired = self._permits.acquire(timeout=trace.context.remaining())
            trace.queue_seconds += time.perf_counter() - started
            if not is_acquired:
                raise DeadlineExceeded("The deadline had passed before the computation began.")
            try:
                trace.context.require_client()
                with self._lock:
                    self.working += 1
                is_served = True
                yield
            finally:
                self._permits.release()
        finally:
            self._leave(is_served)

    def require_room(self, context: RequestContext) -> None:
        """Raises if a request would be answered too late.

        Raises:
            ResourceExhausted: With the seconds after which to retry.
        """
        self._require(context.is_low_priority, _patience(context))

    def require_room_at_door(self, is_low: bool) -> None:
        """Raises if a request would be answered too late even for the most patient client of late.

        For a request whose deadline is not known yet.

        Args:
            is_low: Whether it has a low priority.

        Raises:
            ResourceExhausted: With the seconds after which to retry.
        """
        self._require(is_low, self._longest)

    def note_patience(self, context: RequestContext) -> None:
        """Learns from a request how long clients wait."""
        seconds = _patience(context)
        fall = _FORGET * (seconds - self._longest)
        self._longest = max(seconds, self._longest + fall)

    def _require(self, is_low: bool, patience: float) -> None:
        expected = (self._present + 1) * self._pace()
        if self._most and self._present >= self._most:
            raise too_many(self._most, expected)
        allowed = (_LOW if is_low else _NORMAL) * patience
        if self._present >= self._free and expected > allowed:
            raise too_late(expected, allowed)

    def _enter(self, trace: RequestTrace) -> None:
        with self._lock:
            self.note_patience(trace.context)
            trace.context.require_client()
            self.require_room(trace.context)
            if not self._present:
                self._since = time.perf_counter()
            self._present += 1

    def _leave(self, was_served: bool) -> None:
        with self._lock:
            self._present -= 1
            if was_served:
                self.working -= 1
                now = time.perf_counter()
                busy = now - self._since
                kept = math.exp(-busy / _MEMORY)
                self._busy = kept * self._busy + busy
                self._answers = kept * self._answers + 1
                self._since = now

    def _pace(self) -> float:
        """Returns the recent seconds between two answers, while there were requests."""
        if not self._present:
            return 0.0
        current = time.perf_counter() - self._since
        return (self._busy + current) / max(1.0, self._answers)


def _patience(context: RequestContext) -> float:
    """Returns the seconds that the client of a request waits."""
    remaining = context.remaining()
    return _PATIENCE if remaining is None else remaining
