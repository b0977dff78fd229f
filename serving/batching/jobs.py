"""Jobs that wait for a batch, and their queues."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from serving.common.errors import ServingError
from serving.common.request import Arrays
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters

# To wait for a batch that takes less pays: one larger batch costs less than two at once.
_LIGHT_SECONDS = 0.005
_LIGHT_JOB_SECONDS = 0.0003  # for each of its jobs


@dataclass(eq=False)
class Job:
    """One request's computation as part of a batch.

    Args:
        key: Jobs of one key may share a batch.
        quota: What its rows count for: jobs of one quota share one bounded queue.
        parameters: Sizes and times of batches.
        rows: Rows, or requests with candidates: what counts for the bounded queue.
        size: Rows, or candidates of all rows: what counts for the size of a batch.
        inputs: Arrays by input name.
        outputs: Names of the outputs.
        trace: The record of its request.
        run: Computes a batch of such jobs: sets the `results` of each, or raises.
    """

    key: Hashable
    quota: Hashable
    parameters: BatchingParameters
    rows: int
    size: int
    inputs: Arrays
    outputs: Sequence[str]
    trace: RequestTrace
    run: Callable[[Sequence[Job]], None]
    results: dict[str, np.ndarray] = field(default_factory=dict)
    error: ServingError | None = None
    queued: float = 0.0
    is_waiting: bool = False  # in its queue
    deadline: float = math.inf
    # Held until the job is done; with many waiting threads it is cheaper than an event.
    done: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.done.acquire()
        remaining = self.trace.context.remaining()
        if remaining is not None:
            self.deadline = time.perf_counter() + remaining


@dataclass(eq=False)
class BatchQueue:
    """The waiting jobs of one key, oldest first.

    Attributes:
        running: Threads that collect or compute a batch of it.
        is_collecting: Whether one of them still adds arriving jobs to its batch.
        is_light: Whether its last batch was cheap.
        until: Expected end of a light batch, at the latest.
        pace: Seconds of its last batch, for each row or candidate.
    """

    key: Hashable
    jobs: deque[Job] = field(default_factory=deque)
    running: int = 0
    is_collecting: bool = False
    is_light: bool = False
    until: float = 0.0
    pace: float = 0.0

    @property
    def may_start(self) -> bool:
        """Whether its jobs may start as a batch on a free slot.

        While a light batch runs they wait for its end, for one larger batch. A batch that takes
        long after a light one, to compile for example, does not block them beyond `until`.
        """
        if not self.jobs or self.is_collecting:
            return False
        return not (self.running and self.is_light and time.perf_counter() < self.until)

    def started(self, jobs: int) -> None:
        """Notes the start of a batch."""
        self.until = time.perf_counter() + _light_seconds(jobs)

    def computed(self, batch: Sequence[Job], seconds: float) -> None:
        """Notes the cost of a batch."""
        self.is_light = seconds < _light_seconds(len(batch))
        self.pace = seconds / max(1, sum(job.size for job in batch))


def _light_seconds(jobs: int) -> float:
    return _LIGHT_SECONDS + jobs * _LIGHT_JOB_SECONDS


def fitting(queue: BatchQueue, limit: int) -> list[Job]:
    """Returns the oldest jobs of a queue that make a batch.

    Args:
        queue: The queue. By the pace of its last batch, this one ends before the deadline of each
            of its jobs, but for those that are late anyway.
        limit: Most rows or candidates.
    """
    batch: list[Job] = []
    now, end, size = time.perf_counter(), math.inf, 0
    for job in queue.jobs:
        size += job.size
        if now + job.size * queue.pace <= job.deadline:
            end = min(end, job.deadline)
        if batch and (size > limit or now + size * queue.pace > end):
            break
        batch.append(job)
    return batch[: batch_length(batch)]


def batch_length(jobs: Sequence[Job]) -> int:
    """Returns how many of these make a batch: 1, 2, 3, 4, 6, 8, 12, ... are few to compile."""
    count = len(jobs)
    if not jobs or jobs[0].parameters.allowed_batch_sizes:  # these pad to a size themselves
        return count
    step = 1 << max(count.bit_length() - 2, 0)
    return count // step * step
