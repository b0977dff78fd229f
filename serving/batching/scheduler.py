"""The choice of the next batch, and of the thread that computes it.

A request that finds a free slot is computed at once, by its own thread, as without batching.
Requests that arrive while all slots are busy form the next batches. A thread that ends a batch
hands its slot to a pool thread, which computes batch after batch while requests wait.
"""

from __future__ import annotations

import copy
import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from concurrent import futures

import numpy as np

from serving.batching.jobs import BatchQueue, Job, fitting
from serving.common.errors import (
    FailedPrecondition,
    Internal,
    InvalidArgument,
    ServingError,
    Unavailable,
)

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 0.1  # a waiting request then looks for a free slot again


class BatchScheduler:
    """Computes jobs in batches; threads share it.

    Args:
        slots: Batches computed at the same time.
    """

    def __init__(self, slots: int) -> None:
        # Guards all that follows, the queues and their jobs; never held while computing.
        self._changed = threading.Condition(threading.Lock())
        self._free = slots
        self._queues: dict[Hashable, BatchQueue] = {}
        self._waiting: Counter[Hashable] = Counter()  # rows by quota
        self._pool = futures.ThreadPoolExecutor(slots, "batch")

    def run(self, job: Job) -> dict[str, np.ndarray]:
        """Returns the results of a job, computed in a batch.

        Raises:
            Unavailable: Too many jobs wait already.
            DeadlineExceeded, Cancelled: The client does not wait any more.
            ServingError: The computation failed.
        """
        if (error := _absence(job)) is not None:
            raise error
        with self._changed:
            self._enqueue(job)
            queue = self._claim(job)
        self._compute_one(queue)
        while not job.done.acquire(timeout=_timeout(job)):
            error = _absence(job)
            with self._changed:
                if not job.is_waiting:
                    continue  # it is being computed
                if error is not None:
                    self._remove(job)
                    raise error
                queue = self._claim(job)  # a batch that seemed light takes long
            self._compute_one(queue)
        if job.error is not None:
            raise job.error
        return job.results

    def _enqueue(self, job: Job) -> None:
        room = job.parameters.max_enqueued_batches * job.parameters.max_batch_size
        waiting = self._waiting[job.quota]
        # An empty queue takes any job: it may be computed at once.
        if waiting and waiting + job.rows > room:
            raise self._full(job)
        self._waiting[job.quota] += job.rows
        queue = self._queues.setdefault(job.key, BatchQueue(job.key))
        queue.jobs.append(job)
        job.queued, job.is_waiting = time.perf_counter(), True
        if queue.is_collecting:
            self._changed.notify_all()

    def _full(self, job: Job) -> ServingError:
        error = Unavailable("The batch scheduling queue to which this task was submitted is full")
        first = [queue.jobs[0] for queue in self._queues.values() if queue.jobs]
        oldest = min(one.queued for one in first if one.quota == job.quota)
        error.retry_after = time.perf_counter() - oldest  # as long as the wait of late
        return error

    def _remove(self, job: Job) -> None:
        queue = self._queues[job.key]
        queue.jobs.remove(job)
        self._dequeue(job)
        self._forget_idle(queue)
        if queue.is_collecting and not queue.jobs:  # the batch has become empty
            self._changed.notify_all()

    def _dequeue(self, job: Job) -> None:
        job.is_waiting = False
        self._waiting[job.quota] -= job.rows
        if not self._waiting[job.quota]:
            del self._waiting[job.quota]

    def _claim(self, job: Job) -> BatchQueue | None:
        """Returns the queue of a job if the job's own thread is to compute its next batch."""
        queue = self._start(self._queues[job.key])
        if queue is not None and queue.jobs[0] is not job:
            self._hand_on(queue)  # older jobs come first
            return None
        return queue

    def _start(self, queue: BatchQueue) -> BatchQueue | None:
        """Gives a queue a slot; None if there is none for it."""
        if not self._free or not queue.may_start:
            return None
        self._free -= 1
        queue.running += 1
        queue.is_collecting = True
        return queue

    def _start_oldest(self) -> BatchQueue | None:
        ready = [queue for queue in self._queues.values() if queue.may_start]
        return self._start(min(ready, key=lambda queue: queue.jobs[0].queued)) if ready else None

    def _hand_on(self, queue: BatchQueue | None) -> None:
        """Lets a pool thread use the slot of a queue, for this batch and those that follow."""
        if queue is not None:
            self._pool.submit(functools.partial(self._compute_all, queue))

    def _compute_one(self, queue: BatchQueue | None) -> None:
        if queue is not None:
            self._compute(queue)
            with self._changed:
                self._hand_on(self._next(queue))

    def _compute_all(self, queue: BatchQueue | None) -> None:
        while queue is not None:
            self._compute(queue)
            with self._changed:
                queue = self._next(queue)

    def _next(self, queue: BatchQueue) -> BatchQueue | None:
        """Ends a batch; returns the next queue with a slot, for the caller, if any waits."""
        queue.running -= 1
        self._free += 1
        self._forget_idle(queue)
        next_queue = self._start_oldest()
        while next_queue is not None and (other := self._start_oldest()) is not None:
            self._hand_on(other)
        return next_queue

    def _forget_idle(self, queue: BatchQueue) -> None:
        if not queue.jobs and not queue.running:
            self._queues.pop(queue.key, None)

    def _compute(self, queue: BatchQueue) -> None:
        batch = self._collect(queue)
        started = time.perf_counter()
        compute(batch)
        with self._changed:
            if batch:
                queue.computed(batch, time.perf_counter() - started)
        for job in batch:
            job.done.release()

    def _collect(self, queue: BatchQueue) -> list[Job]:
        """Takes the oldest jobs, as many as fit in a batch; waits for more as configured."""
        with self._changed:
            limit = 0
            while queue.jobs:  # those whose deadline passes leave
                parameters = queue.jobs[0].parameters
                limit = parameters.execution_size
                end = queue.jobs[0].queued + parameters.batch_timeout_micros / 1e6
                seconds = end - time.perf_counter()
                if seconds <= 0 or sum(one.size for one in queue.jobs) >= limit:
                    break
                self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
            queue.is_collecting = False
            batch = fitting(queue, limit)
            for job in batch:
                queue.jobs.popleft()
                self._dequeue(job)
            queue.started(len(batch))
            self._hand_on(self._start(queue))  # jobs beyond this batch need not wait for it
        return batch


def compute(batch: Sequence[Job]) -> None:
    """Sets the results or the error of each job; never raises."""
    started = time.perf_counter()
    for job in batch:
        job.trace.queue_seconds += started - job.queued
    _compute(batch)


def _compute(batch: Sequence[Job]) -> None:
    for job in batch:
        job.error = _absence(job)
    batch = [job for job in batch if job.error is None]
    if not batch:
        return
    started = time.perf_counter()
    try:
        batch[0].run(batch)
    except (InvalidArgument, FailedPrecondition) as error:
        if len(batch) > 1:  # one of them is at fault: the others must not fail with it
            for job in batch:
                _compute([job])
            return
        batch[0].error = error
    except ServingError as error:
        for job in batch:
            job.error = copy.copy(error)  # each is raised in a thread of its own
    except BaseException as error:  # even `SystemExit`: other threads wait for this one
        _fail(batch, error)
    seconds, rows = time.perf_counter() - started, sum(job.size for job in batch)
    for job in batch:
        job.trace.runtime_seconds += seconds
        job.trace.batch_rows = rows


def _absence(job: Job) -> ServingError | None:
    """Returns the error of a job whose client no longer waits."""
    try:
        job.trace.context.require_client()
    except ServingError as error:
        return error
    except BaseException as error:
        _fail([job], error)
        return job.error
    return None


def _fail(batch: Sequence[Job], error: BaseException) -> None:
    _LOGGER.error("A batch of %d requests failed", len(batch), exc_info=error)
    for job in batch:
        job.error = Internal(f"{type(error).__name__}: {error}")


def _timeout(job: Job) -> float:
    seconds = job.deadline - time.perf_counter()
    return seconds if 0 < seconds < _POLL_SECONDS else _POLL_SECONDS
