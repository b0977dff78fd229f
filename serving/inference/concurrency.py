"""How many requests are served at once, and how many may wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from serving.common.errors import DeadlineExceeded, ResourceExhausted
from serving.common.request_trace import RequestTrace


class ConcurrencyLimit:
    """A semaphore with a bounded queue.

    Args:
        at_once: Requests that are served at once; the others wait.
        most: Requests at a time, those that wait included. Defaults to 0: any number.
    """

    def __init__(self, at_once: int, most: int = 0) -> None:
        self._most = most
        self._permits = threading.Semaphore(at_once)
        self._lock = threading.Lock()  # guards `_present`
        self._present = 0

    @contextlib.contextmanager
    def acquire(self, trace: RequestTrace) -> Iterator[None]:
        """Waits for a permit, and holds it during the block.

        Raises:
            ResourceExhausted: The queue is full.
            DeadlineExceeded, Cancelled: The client no longer waits.
        """
        with self._lock:
            self.require_room()
            self._present += 1
        try:
            started = time.perf_counter()
            is_acquired = self._permits.acquire(timeout=trace.context.remaining())
            trace.queue_seconds += time.perf_counter() - started
            if not is_acquired:
                raise DeadlineExceeded("The deadline had passed before the computation began.")
            try:
                trace.context.require_client()
                yield
            finally:
                self._permits.release()
        finally:
            with self._lock:
                self._present -= 1

    def require_room(self) -> None:
        """Raises ResourceExhausted if the queue is full."""
        if self._most and self._present >= self._most:
            raise ResourceExhausted(
                f"{self._most} requests are being answered already. Send fewer at a time."
            )
