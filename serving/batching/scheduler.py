"""Who computes which batch, and when.

A request that finds a free slot is computed at once, in its own thread, as it would be without
batching. Those that come while all slots are taken make the next batches: whoever ends a batch
and finds such requests hands its slot to a thread that computes one batch after the other while
any are left. So under load the threads of requests only wait, and do not compete with each other
for Python's lock between two batches.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
import weakref
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
# A batch that takes less is worth waiting for: one larger batch costs less than two at once.
_LIGHT_SECONDS = 0.005


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
    queued: float = field(default_factory=time.perf_counter)
    is_waiting: bool = True  # in its lane
    # Held until the job is done; with many waiting it is cheaper than an event.
    undone: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.undone.acquire()


@dataclass(eq=False)
class Lane:
    """The jobs that may share a batch, oldest first.

    Attributes:
        jobs: Those that wait.
        running: Batches that are being gathered or computed.
        gathers: Whether one of them still takes what comes.
        is_light: Whether its last batch took little time.
        began: When the computation of the newest batch did.
    """

    key: Hashable
    jobs: deque[Job] = field(default_factory=deque)
    running: int = 0
    gathers: bool = False
    is_light: bool = False
    began: float = 0.0

    @property
    def may_start(self) -> bool:
        """Whether its jobs are a batch for a free slot."""
        if not self.jobs or self.gathers:
            return False
        # One that takes long after a light one, to compile or for ever, does not block the lane.
        seems_light = self.is_light and time.perf_counter() - self.began < _LIGHT_SECONDS
        return not (self.running and seems_light)


class Scheduler:
    """Computes jobs in batches.

    Args:
        slots: Batches computed at the same time.
    """

    def __init__(self, slots: int) -> None:
        # Guards all that follows, the lanes and their jobs; never held while computing.
        self._changed = threading.Condition(threading.Lock())
        self._free = slots
        self._lanes: dict[Hashable, Lane] = {}
        self._waiting: Counter[Hashable] = Counter()  # sizes by queue
        # Threads from the start on: later there may be too many, or Python may be about to exit,
        # and whoever waits for what was handed on would wait for ever.
        self._handed: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        for number in range(slots):
            threading.Thread(
                target=_work, args=(self._handed,), name=f"batch_{number}", daemon=True
            ).start()
        weakref.finalize(self, _stop, self._handed, slots).atexit = False

    def compute(self, job: Job) -> Any:
        """The job's results.

        Raises:
            Unavailable: Too much waits already.
            DeadlineExceeded, Cancelled: Nobody waits for them any more.
            ServingError: The computation failed.
        """
        lane = self._enter(job)
        if lane is None:
            self._wait(job)
        else:
            self._hand_on(self._compute_batch(lane))
        if job.error is not None:
            raise job.error
        return job.results

    def _enter(self, job: Job) -> Lane | None:
        """The job's lane, where its own thread is to compute it: there is a slot for it."""
        with self._changed:
            room = job.parameters.max_enqueued_batches * job.parameters.max_batch_size
            # An empty queue takes any job: it may be computed at once.
            if self._waiting[job.queue] and self._waiting[job.queue] + job.size > room:
                raise Unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting[job.queue] += job.size
            lane = self._lanes.get(job.lane)
            if lane is None:
                lane = self._lanes[job.lane] = Lane(job.lane)
            lane.jobs.append(job)
            if lane.gathers:
                self._changed.notify_all()
            started = self._started(lane)
            if lane.jobs[0] is job:
                return started
            self._hand_on(started)  # it is the turn of one that came before
            return None

    def _wait(self, job: Job) -> None:
        remaining = job.call.remaining()
        timeout = -1 if remaining is None else min(max(remaining, 0.0), threading.TIMEOUT_MAX)
        if job.undone.acquire(timeout=timeout):
            return
        with self._changed:
            if job.is_waiting:
                lane = self._lanes[job.lane]
                lane.jobs.remove(job)
                self._left(job)
                self._forget_idle(lane)
                if lane.gathers and not lane.jobs:  # for nobody
                    self._changed.notify_all()
                raise DeadlineExceeded("The deadline had passed before the computation began.")
        job.undone.acquire()  # it is being computed

    def _hand_on(self, lane: Lane | None) -> None:
        if lane is not None:
            self._handed.put(functools.partial(self._compute_batches, lane))

    def _compute_batches(self, lane: Lane | None) -> None:
        """Batch after batch, from this one on, while there are any for its slot."""
        while lane is not None:
            lane = self._compute_batch(lane)

    def _compute_batch(self, lane: Lane) -> Lane | None:
        """Computes one that was started; the lane of the next, which has its slot."""
        batch = self._gather(lane)
        begin = time.perf_counter()
        try:
            self._run(batch)
        finally:
            with self._changed:
                lane.running -= 1
                lane.is_light = time.perf_counter() - begin < _LIGHT_SECONDS
                self._forget_idle(lane)
                self._free += 1
                following = self._start_oldest()
            for job in batch:
                job.undone.release()
        return following

    def _gather(self, lane: Lane) -> list[Job]:
        """What waits in a lane that was started, oldest first, as far as it fits in a batch."""
        batch: list[Job] = []
        with self._changed:
            size, limit = 0, 0
            while lane.jobs:  # those whose deadline passes leave
                parameters = lane.jobs[0].parameters
                limit = parameters.execution_size
                end = lane.jobs[0].queued + parameters.batch_timeout_micros / 1e6
                left = end - time.perf_counter()
                if left <= 0 or sum(one.size for one in lane.jobs) >= limit:
                    break
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            lane.gathers = False
            lane.began = time.perf_counter()
            for one in lane.jobs:
                if batch and size + one.size > limit:
                    break
                batch.append(one)
                size += one.size
            del batch[_few_sizes(batch) :]
            for one in batch:
                lane.jobs.popleft()
                self._left(one)
            beyond = self._started(lane)  # more came than fits: no need to wait for this batch
        self._hand_on(beyond)
        return batch

    def _started(self, lane: Lane) -> Lane | None:
        """The lane, whose jobs now have a slot; None where there is none for them."""
        if not self._free or not lane.may_start:
            return None
        self._free -= 1
        lane.running += 1
        lane.gathers = True
        return lane

    def _start_oldest(self) -> Lane | None:
        ready = [lane for lane in self._lanes.values() if lane.may_start]
        return self._started(min(ready, key=lambda lane: lane.jobs[0].queued)) if ready else None

    def _left(self, job: Job) -> None:
        job.is_waiting = False
        self._waiting[job.queue] -= job.size
        if not self._waiting[job.queue]:
            del self._waiting[job.queue]

    def _forget_idle(self, lane: Lane) -> None:
        if not lane.jobs and not lane.running:
            del self._lanes[lane.key]

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
            except Exception as error:
                _fail([job], error)
        if alive:
            _compute(alive)


def _few_sizes(jobs: Sequence[Job]) -> int:
    """How many of these make a batch: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... are few to compile."""
    count = len(jobs)
    if not jobs or jobs[0].parameters.allowed_batch_sizes:  # to which they are filled up
        return count
    step = 1 << max(count.bit_length() - 2, 0)
    return count // step * step


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
    except BaseException as error:  # even `SystemExit`: others wait for this thread
        _fail(batch, error)
    seconds, rows = time.perf_counter() - started, sum(job.size for job in batch)
    for job in batch:
        job.call.runtime_seconds += seconds
        job.call.batch_rows = rows


def _fail(batch: Sequence[Job], error: BaseException) -> None:
    _LOGGER.error("A batch of %d requests failed", len(batch), exc_info=error)
    for job in batch:
        job.error = Internal(f"{type(error).__name__}: {error}")


def _work(handed: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    for work in iter(handed.get, None):
        work()
        del work  # it holds the scheduler, whose end is that of its threads


def _stop(handed: queue.SimpleQueue[Callable[[], None] | None], threads: int) -> None:
    for _ in range(threads):
        handed.put(None)
