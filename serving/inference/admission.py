"""The concurrency limit: one rule for gRPC, REST and batching."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Iterator

from serving.common.errors import ResourceExhausted, ServingError
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.config.server_config import CPUS

_PACE_SECONDS = 1.0  # of work, by which the pace of older answers counts a third
_PATIENCE = 5.0  # seconds of a client without a deadline, as of this project's client
_PATIENCE_DECAY = 0.01  # share by which each request draws the patience towards its own
_NORMAL_SHARE, _LOW_SHARE = 0.5, 0.25  # of a client's time for a request; the rest is reserve
_POLL_SECONDS = 0.25  # time between two checks for the client of a waiting request


class Admission:
    """Serves a few requests at once; the others wait, or are refused.

    A request that joins n others is answered after about n times the recent time between two
    answers (Little's law). It is refused at once if that is more than half of the time that its
    client waits; with a low priority, a quarter. The queue is as long as its requests can be
    answered in time.

    Args:
        at_once: Requests that are served at once.
        most: Requests at a time, those that wait included. Defaults to 0: any number.

    Attributes:
        working: Requests that are served.
    """

    def __init__(self, at_once: int, most: int = 0) -> None:
        self._at_once, self._most = at_once, most
        self._always_admitted = min(at_once, CPUS)  # so many are never refused by their time
        self._lock = threading.Lock()  # guards all that follows
        self.working = 0
        # A lock for each waiting request, the oldest first; it is released when its turn comes.
        self._turns = deque[threading.Lock]()
        self._last_answer = time.perf_counter()  # or the first request after it
        self._busy = self._answers = 0.0  # seconds and answers; older ones count less
        self._longest = 0.0  # seconds that recent clients wait, at most

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._turns)

    @contextlib.contextmanager
    def acquire(self, trace: RequestTrace) -> Iterator[None]:
        """Waits for the request's turn, and serves it during the block.

        Raises:
            ResourceExhausted: The answer would come too late, or too many requests wait.
            DeadlineExceeded, Cancelled: The client no longer waits.
        """
        self._wait(trace)
        try:
            yield
        finally:
            with self._lock:
                self._note_answer()
                self._end()

    def require_room(self, context: RequestContext) -> None:
        """Raises if a request would be answered too late.

        Raises:
            ResourceExhausted: With the seconds after which to retry.
        """
        patience = _patience(context)
        with self._lock:
            self._require(context.is_low_priority, patience)

    def require_room_without_deadline(self, is_low: bool) -> None:
        """Raises if a request would be answered too late for the longest wait of recent clients.

        For a request whose deadline is not known yet.

        Args:
            is_low: Whether it has a low priority.

        Raises:
            ResourceExhausted: With the seconds after which to retry.
        """
        with self._lock:
            self._require(is_low, self._longest)

    def note_patience(self, context: RequestContext) -> None:
        """Records how long the client of a refused request waits."""
        patience = _patience(context)
        with self._lock:
            self._note_patience(patience)

    def _wait(self, trace: RequestTrace) -> None:
        context, started = trace.context, time.perf_counter()
        context.require_client()
        patience = _patience(context)
        with self._lock:
            self._note_patience(patience)
            self._require(context.is_low_priority, patience)
            turn = self._enter()
        trace.is_admitted = True
        try:
            while not turn.acquire(timeout=_slice(context)):
                context.require_client()
            context.require_client()
        except BaseException:
            self._give_up(turn)
            raise
        finally:
            trace.queue_seconds += time.perf_counter() - started

    def _require(self, is_low: bool, patience: float) -> None:
        present = self.working + len(self._turns)
        expected = (present + 1) * self._pace()
        if self._most and present >= self._most:
            raise _busy(
                f"{self._most} requests are being answered already. Send fewer at a time.", expected
            )
        allowed = (_LOW_SHARE if is_low else _NORMAL_SHARE) * patience
        if present >= self._always_admitted and expected > allowed:
            raise _busy(
                f"The server is busy: an answer would take about {expected:.3f} s. The most that "
                f"its deadline and priority allow is {allowed:.3f} s. Retry elsewhere, or later.",
                expected,
            )

    def _note_patience(self, patience: float) -> None:
        decayed = self._longest + _PATIENCE_DECAY * (patience - self._longest)
        self._longest = max(patience, decayed)

    def _enter(self) -> threading.Lock:
        turn = threading.Lock()
        if not self.working:
            self._last_answer = time.perf_counter()
        if self.working < self._at_once:
            self.working += 1
        else:
            turn.acquire()
            self._turns.append(turn)
        return turn

    def _give_up(self, turn: threading.Lock) -> None:
        with self._lock:
            if turn in self._turns:
                self._turns.remove(turn)
            else:  # its turn has come meanwhile
                self._end()

    def _end(self) -> None:
        """Hands the place of a request to the one that has waited longest."""
        if self._turns:
            self._turns.popleft().release()
        else:
            self.working -= 1

    def _note_answer(self) -> None:
        now = time.perf_counter()
        busy = now - self._last_answer
        weight = math.exp(-busy / _PACE_SECONDS)
        self._busy = weight * self._busy + busy
        self._answers = weight * self._answers + 1
        self._last_answer = now

    def _pace(self) -> float:
        """Returns the recent seconds between two answers, while there were requests."""
        if not self.working:
            return 0.0
        since_last = time.perf_counter() - self._last_answer
        return (self._busy + since_last) / max(1.0, self._answers)


def _busy(message: str, retry_after: float) -> ServingError:
    error = ResourceExhausted(message)
    error.retry_after = retry_after
    return error


def _patience(context: RequestContext) -> float:
    """Returns the seconds that the client of a request waits."""
    remaining = context.remaining()
    if remaining is None:
        return _PATIENCE
    return remaining if context.has_own_deadline else min(_PATIENCE, remaining)


def _slice(context: RequestContext) -> float:
    """Returns the seconds until the next check for the client of a waiting request."""
    remaining = context.remaining()
    return _POLL_SECONDS if remaining is None else max(0.0, min(_POLL_SECONDS, remaining))
