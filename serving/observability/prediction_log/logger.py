"""Logs a sample of the answered requests without making any of them wait."""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from serving.common.request_trace import RequestTrace
from serving.observability.prediction_log.files import LogFiles
from serving.observability.prediction_log.record import Answered, to_row
from serving.observability.prediction_log.sampling import Sample

_LOGGER = logging.getLogger(__name__)
MIB = 2**20


class PredictionLogger:
    """An observer of answered requests that writes a sample of them into a folder.

    A request's thread looks whether the request is in the sample, and puts it into a queue. One
    thread makes rows of the queue and writes them. What finds the queue full is dropped, what the
    disk does not take is lost; both are counted, and no request fails or waits for it.

    Args:
        folder: Where the Parquet files are written; servers may share it.
        sampling_rate: Share of the requests that are logged, 0 to 1.
        max_file_rows: Rows of a file.
        max_file_bytes: Size of a file; a quarter of `max_total_bytes` where that is less.
        max_file_seconds: Time after which a file that has a row is finished. A killed process
            loses no more than its unfinished file.
        max_total_bytes: Size of all files together; the oldest are deleted.
        queue_size: Requests that may wait for the writer.
        seed: Servers of one seed and rate log the same requests.

    Raises:
        ValueError: An argument is out of its range.
        OSError: The folder cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        sampling_rate: float = 0.01,
        max_file_rows: int = 100_000,
        max_file_bytes: int = 64 * MIB,
        max_file_seconds: float = 300.0,
        max_total_bytes: int = 1024 * MIB,
        queue_size: int = 1000,
        seed: int = 0,
    ) -> None:
        _check("sampling_rate", sampling_rate, 0 <= sampling_rate <= 1, "a share from 0 to 1")
        _check("max_file_rows", max_file_rows, max_file_rows > 0, "a positive number")
        _check("max_file_bytes", max_file_bytes, max_file_bytes > 0, "a positive number")
        _check("max_file_seconds", max_file_seconds, max_file_seconds > 0, "a positive number")
        _check("max_total_bytes", max_total_bytes, max_total_bytes > 0, "a positive number")
        _check("queue_size", queue_size, queue_size > 0, "a positive number")
        _check("seed", seed, -(2**63) <= seed < 2**63, "a number of 64 bits")
        self._rate = sampling_rate
        self._sample = Sample(sampling_rate, seed)
        self._files = LogFiles(
            Path(folder),
            max_file_rows,
            min(max_file_bytes, -(-max_total_bytes // 4)),
            max_file_seconds,
            max_total_bytes,
        )
        self._queue: queue.Queue[Answered | None] = queue.Queue(queue_size)
        self._counting = threading.Lock()  # guards the two numbers below it
        self._dropped = 0
        self._unreadable = 0
        self._is_failing = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="prediction-log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Requests of the sample that found the queue full."""
        return self._dropped

    @property
    def failed(self) -> int:
        """Requests of the sample that could not be read, or that the disk did not take."""
        return self._unreadable + self._files.lost

    @property
    def written(self) -> int:
        """Requests in files that are finished."""
        return self._files.written

    def __call__(self, trace: RequestTrace) -> None:
        """Takes note of a finished request; never raises and never waits."""
        try:
            # Requests without an id are sampled too, each server by itself.
            request_id = trace.context.request_id or uuid.uuid4().hex
            if trace.response is None or not self._sample.keeps(request_id):
                return
            if self._closed:
                raise queue.Full
            self._queue.put_nowait(Answered.of(trace, time.time_ns() // 1000))
        except queue.Full:
            self._count(dropped=1)
        except Exception as error:
            self._count(unreadable=1)
            self._report(error)

    def close(self, timeout: float = 30.0) -> None:
        """Writes what waits, finishes the file and ends the thread.

        Args:
            timeout: Seconds to wait for a disk that does not answer.
        """
        if self._closed:
            return
        self._closed = True
        end = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            _LOGGER.error("The prediction log was given up: the disk did not answer.")
            return
        self._thread.join(max(0.0, end - time.monotonic()))
        while not self._thread.is_alive() and not self._queue.empty():
            self._queue.get_nowait()  # of calls that came while it closed
            self._count(dropped=1)

    def _run(self) -> None:
        while True:
            try:
                entry = self._queue.get(timeout=self._files.seconds_left)
            except queue.Empty:
                self._write(self._files.finish)
                continue
            if entry is None:
                self._write(self._files.finish)
                return
            try:
                row = to_row(entry, self._rate)
            except Exception as error:
                self._count(unreadable=1)
                self._report(error)
                continue
            self._write(functools.partial(self._files.append, row))

    def _write(self, action: Callable[[], None]) -> None:
        before = self._files.written
        try:
            action()
        except Exception as error:  # whatever the disk or Arrow has: the thread must go on
            self._report(error)
            self._files.abandon()
        if self._files.written > before:
            self._is_failing = False

    def _report(self, error: Exception) -> None:
        """Says it once; the counts say how often, until a file could be written again."""
        if not self._is_failing:
            self._is_failing = True
            _LOGGER.error("The prediction log misses requests: %s: %s", type(error).__name__, error)

    def _count(self, dropped: int = 0, unreadable: int = 0) -> None:
        with self._counting:
            self._dropped += dropped
            self._unreadable += unreadable


def _check(name: str, value: float, valid: bool, expected: str) -> None:
    if not valid:
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value}")
