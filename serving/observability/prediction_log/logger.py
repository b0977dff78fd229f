"""Logs a sample of the answered requests without delaying any of them."""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable

from serving.common.request_trace import RequestTrace
from serving.common.sampling import is_sampled
from serving.observability.prediction_log.log_files import LogFiles
from serving.observability.prediction_log.record import to_row

_LOGGER = logging.getLogger(__name__)


class PredictionLogger:
    """Writes a sample of the answered requests to files.

    The thread of a request puts the request into a queue if it belongs to the sample; one thread
    turns the queue into rows and writes them. Requests that find the queue full are dropped, and
    rows that cannot be written are lost. Both are counted, and no request fails or waits for it.

    Args:
        files: The files.
        sampling_rate: Share of the requests that are logged, 0 to 1. Defaults to 0.01.
        queue_size: Requests that may wait for the writer.
    """

    def __init__(
        self, files: LogFiles, sampling_rate: float = 0.01, queue_size: int = 1000
    ) -> None:
        self._rate = sampling_rate
        self._files = files
        self._queue: queue.Queue[RequestTrace | None] = queue.Queue(queue_size)
        self._lock = threading.Lock()  # guards the two numbers below it
        self._dropped = 0
        self._unreadable = 0
        self._is_failing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="prediction-log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Requests of the sample that found the queue full."""
        return self._dropped

    @property
    def failed(self) -> int:
        """Requests of the sample that could not be converted or written."""
        return self._unreadable + self._files.lost

    @property
    def written(self) -> int:
        """Requests in files."""
        return self._files.written

    def observe(self, trace: RequestTrace) -> None:
        """Queues a finished request; never raises and never waits."""
        try:
            # Requests without an id are sampled by a random one.
            request_id = trace.context.request_id or uuid.uuid4().hex
            if trace.response is None or not is_sampled(request_id, self._rate, "log"):
                return
            if self._is_closed:
                raise queue.Full
            self._queue.put_nowait(trace.detached())
        except queue.Full:
            self._count(dropped=1)
        except Exception as error:
            self._count(unreadable=1)
            self._report(error)

    def close(self, timeout: float = 30.0) -> None:
        """Writes the waiting requests and ends the thread.

        Args:
            timeout: Seconds to wait for a disk that does not respond.
        """
        if self._is_closed:
            return
        self._is_closed = True
        end = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            _LOGGER.error("Stopped the prediction log: the disk did not respond.")
            return
        self._thread.join(max(0.0, end - time.monotonic()))
        while not self._thread.is_alive() and not self._queue.empty():
            self._queue.get_nowait()  # a request that came during the close
            self._count(dropped=1)

    def _run(self) -> None:
        while True:
            try:
                trace = self._queue.get(timeout=self._files.seconds_left)
            except queue.Empty:
                self._write(self._files.finish)
                continue
            if trace is None:
                self._write(self._files.finish)
                return
            try:
                row = to_row(trace, self._rate)
            except Exception as error:
                self._count(unreadable=1)
                self._report(error)
                continue
            self._write(functools.partial(self._files.append, row))

    def _write(self, action: Callable[[], None]) -> None:
        before = self._files.written
        try:
            action()
        except Exception as error:  # of the disk or of Arrow: the thread must go on
            self._report(error)
        if self._files.written > before:
            self._is_failing = False

    def _report(self, error: Exception) -> None:
        """Logs the first of several failures in a row; the counters have the others."""
        if not self._is_failing:
            self._is_failing = True
            _LOGGER.error("The prediction log loses requests: %s: %s", type(error).__name__, error)

    def _count(self, dropped: int = 0, unreadable: int = 0) -> None:
        with self._lock:
            self._dropped += dropped
            self._unreadable += unreadable
