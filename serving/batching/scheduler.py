"""Who computes which batch, and when.

No thread waits for work: of the threads that wait for answers, one leads. It takes what may share
a batch with its own request, computes, hands the others their results, and lets the next one
lead. So a request that finds a free slot is computed at once, in its own thread, as it would be
without batching; those that come while all slots are taken make the next batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.batching.parameters import BatchingParameters
from serving.call import Call
from serving.errors import (
    DeadlineExceeded,
    Internal,
    ServingError,
    Unavailable,
)

_LOGGER = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """A request that waits for its batch.

    Args:
        lane: Jobs of one lane may share a batch.
        queue: What is bounded: the lanes of one signature.
        parameters: How the queue is batched.
        size: Rows, or candidates.
        call: Who waits.
        run: Computes the jobs of a batch: gives each its `results`, or raises.
        payload: What `run` needs.
    """

    lane: Hashable
    queue: Hashable
    parameters: BatchingParameters
    size: int
    call: Call
    run: Callable[[Sequence[Job]], None]
    payload: Any
    results: Any = None
    error: ServingError | None = None
    leads: bool = False
    queued: float = field(default_factory=time.perf_counter)
    # Set once the job is done, or once it leads.
    ready: threading.Event = field(default_factory=threading.Event)


class Scheduler:
    """Computes jobs in batches, in the threads of those who wait for them.

    Args:
        slots: Batches computed at the same time.
    """

    def __init__(self, slots: int) -> None:
        # Guards all that follows and the `leads` of jobs in a lane; never held while computing.
        self._changed = threading.Condition(threading.Lock())
        self._free = slots
        self._lanes: dict[Hashable, deque[Job]] = {}
        self._waiting: Counter[Hashable] = Counter()  # sizes by queue

    def compute(self, job: Job) -> Any:
        """The job's results.

        Raises:
            Unavailable: Too much waits already.
            DeadlineExceeded, Cancelled: Nobody waits for them any more.
            ServingError: The computation failed.
        """
        self._enter(job)
        if not job.leads:
            self._wait(job)
        if job.leads:
            self._lead(job)
        if job.error is not None:
            raise job.error
        return job.results

    def _enter(self, job: Job) -> None:
        with self._changed:
            room = job.parameters.max_enqueued_batches * job.parameters.max_batch_size
            # An empty queue takes any job: it may be computed at once.
            if self._waiting[job.queue] and self._waiting[job.queue] + job.size > room:
                raise Unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting[job.queue] += job.size
            lane = self._lanes.setdefault(job.lane, deque())
            lane.append(job)
            if lane[0].leads:  # whoever leads takes it along, as far as it fits
                self._changed.notify_all()
            elif self._free:
                self._free -= 1
                job.leads = True

    def _wait(self, job: Job) -> None:
        if job.ready.wait(job.call.remaining()):
            return
        with self._changed:
            if not job.leads and job in self._lanes.get(job.lane, ()):
                self._lanes[job.lane].remove(job)
                self._left(job)
                raise DeadlineExceeded("The deadline had passed before the computation began.")
        job.ready.wait()  # it is being computed

    def _lead(self, job: Job) -> None:
        batch: list[Job] = []
        try:
            batch = self._gather(job)
            self._run(batch)
        finally:
            self._pass_on()
            for other in batch:
                other.ready.set()

    def _gather(self, job: Job) -> list[Job]:
        """The leader's batch: what waits in its lane, oldest first, as far as it fits."""
        end = job.queued + job.parameters.batch_timeout_micros / 1e6
        limit = job.parameters.execution_size
        batch: list[Job] = []
        with self._changed:
            lane = self._lanes[job.lane]
            while sum(one.size for one in lane) < limit:
                left = end - time.perf_counter()
                if left <= 0 or not self._changed.wait(left):
                    break
            size = 0
            while lane and (not batch or size + lane[0].size <= limit):
                one = lane.popleft()
                self._left(one)
                batch.append(one)
                size += one.size
            if lane and self._free:  # more came than fits: no need to wait for this batch's end
                self._free -= 1
                self._promote(lane[0])
        return batch

    def _left(self, job: Job) -> None:
        self._waiting[job.queue] -= job.size
        if not self._waiting[job.queue]:
            del self._waiting[job.queue]
        if not self._lanes[job.lane]:
            del self._lanes[job.lane]

    def _pass_on(self) -> None:
        """The oldest job that waits leads next; the slot is free where none does."""
        with self._changed:
            heads = [lane[0] for lane in self._lanes.values() if not lane[0].leads]
            if not heads:
                self._free += 1
                return
            self._promote(min(heads, key=lambda job: job.queued))

    def _promote(self, job: Job) -> None:
        job.leads = True
        job.ready.set()

    def _run(self, batch: Sequence[Job]) -> None:
        started = time.perf_counter()
        alive = []
        for job in batch:
            job.call.queue_seconds += started - job.queued
            try:
                job.call.require_caller()
                alive.append(job)
            except ServingError as error:
                job.error = error
        if alive:
            _compute(alive)


def _compute(batch: Sequence[Job]) -> None:
    started = time.perf_counter()
    try:
        batch[0].run(batch)
    except ServingError as error:
        if len(batch) > 1:  # one of them is to blame: the others shall not suffer
            for job in batch:
                _compute([job])
            return
        batch[0].error = error
    except Exception as error:
        _LOGGER.exception("A batch of %d requests failed", len(batch))
        for job in batch:
            job.error = Internal(f"{type(error).__name__}: {error}")
    seconds, rows = time.perf_counter() - started, sum(job.size for job in batch)
    for job in batch:
        job.call.runtime_seconds += seconds
        job.call.batch_rows = rows
