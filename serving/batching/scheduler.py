"""Who answers which request, who computes which batch, and when.

A request that finds a free slot is answered at once, by its own thread, as it would be without
batching. Those that come while all slots are taken make the next batches: whoever ends a batch
and finds such requests hands its slot to a thread that computes one batch after the other while
any are left.

While such a thread is busy with light batches, requests are not even read by their own threads:
it reads what came, computes it and writes the answers. So under load the threads of requests only
wait, and do not compete with it, and with each other, for Python's lock.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import TypeVar

from serving.batching.computing import compute
from serving.batching.jobs import Job, Lane, Request, few_sizes
from serving.common.call import Call
from serving.common.errors import DeadlineExceeded, ServingError, Unavailable

_UNREAD_SECONDS = 0.05  # a request that nobody has read till then is read by its own thread
_LOOK_AGAIN_SECONDS = 0.1  # one that waits in its lane then sees whether a slot is free for it

Answer = TypeVar("Answer")


class Scheduler:
    """Answers requests, which compute in batches.

    Args:
        slots: Batches computed at the same time.
    """

    def __init__(self, slots: int) -> None:
        # Guards all that follows, the lanes and their jobs; never held while computing.
        self._changed = threading.Condition(threading.Lock())
        self._free = slots
        self._lanes: dict[Hashable, Lane] = {}
        self._waiting: Counter[Hashable] = Counter()  # sizes by queue
        self._unread: deque[Request] = deque()
        # Threads from the start on: later there may be too many, or Python may be about to exit,
        # and whoever waits for what was handed on would wait for ever.
        self._handed: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        for number in range(slots):
            threading.Thread(
                target=_work, args=(self._handed,), name=f"batch_{number}", daemon=True
            ).start()
        weakref.finalize(self, _stop, self._handed, slots).atexit = False

    def answer(self, answer: Coroutine[Job, None, Answer], call: Call) -> Answer:
        """What a coroutine gives that awaits jobs, and nothing else.

        Args:
            answer: The coroutine; any thread may run it.
            call: Who waits for it.

        Raises:
            Unavailable: Too much waits already.
            DeadlineExceeded, Cancelled: Nobody waits for a job any more.
            ServingError: A computation failed.
        """
        request = Request(answer, call)
        if not self._leave_unread(request):
            self._go_on(request)
        while not request.undone.acquire(timeout=_patience(request)):
            self._look_after(request)
        found: Answer = request.result()
        return found

    def _leave_unread(self, request: Request) -> bool:
        """Whether a thread will soon read what came while it was busy, and this too."""
        with self._changed:
            request.is_unread = any(lane.ends_soon for lane in self._lanes.values())
            if request.is_unread:
                request.left_at = time.perf_counter()
                self._unread.append(request)
            return request.is_unread

    def _go_on(self, request: Request) -> None:
        """By its own thread, which computes its batch where there is a slot for it."""
        self._advance([(request, None)])
        self._compute_own(request)

    def _compute_own(self, request: Request) -> None:
        lane = self._start(request)
        if lane is not None:
            self._compute_batch(lane)
            self._hand_slot_on(lane)

    def _look_after(self, request: Request) -> None:
        """Sees to one that has waited for long, unless it is being computed."""
        is_late = time.perf_counter() >= request.deadline
        with self._changed:
            job, was_unread = request.job, request.is_unread
            if was_unread:
                self._unread.remove(request)
                request.is_unread = False
            elif job is None or not job.is_waiting:
                return
            elif is_late:
                self._give_up(job)
        if is_late:
            self._advance([(request, _late())])
        elif was_unread:
            self._go_on(request)
        else:  # it was left to a thread whose batch seemed light, and may take for ever
            self._compute_own(request)

    def _advance(self, requests: Iterable[tuple[Request, ServingError | None]]) -> None:
        """Goes on with requests until each waits for its next job or is answered.

        Args:
            requests: With why there are no results of the job that it waited for.
        """
        answered = []
        for request, error in requests:
            job = request.step(error)
            while job is not None and (refusal := self._enter(job, request)) is not None:
                job = request.step(refusal)
            if job is None:
                answered.append(request)
        for request in answered:  # at last: now their threads want Python's lock
            request.undone.release()

    def _enter(self, job: Job, request: Request) -> ServingError | None:
        """Lines a job up in its lane, unless it is too late or there is no room."""
        with self._changed:
            if time.perf_counter() >= request.deadline:  # it may have waited for a job before
                return _late()
            room = job.parameters.max_enqueued_batches * job.parameters.max_batch_size
            # An empty queue takes any job: it may be computed at once.
            if self._waiting[job.queue] and self._waiting[job.queue] + job.size > room:
                return Unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting[job.queue] += job.size
            lane = self._lanes.get(job.lane)
            if lane is None:
                lane = self._lanes[job.lane] = Lane(job.lane)
            lane.jobs.append(job)
            job.queued = request.left_at or time.perf_counter()
            request.left_at = 0.0
            job.is_waiting = True
            if lane.gathers:
                self._changed.notify_all()
            return None

    def _start(self, request: Request) -> Lane | None:
        """The lane of a request's job, where its own thread is to compute it."""
        with self._changed:
            job = request.job
            if job is None or not job.is_waiting:
                return None
            lane = self._lanes[job.lane]
            started = self._started(lane)
            if lane.jobs[0] is job:
                return started
            self._hand_on(started)  # it is the turn of one that came before
            return None

    def _give_up(self, job: Job) -> None:
        lane = self._lanes[job.lane]
        lane.jobs.remove(job)
        self._dequeue(job)
        self._forget_idle(lane)
        if lane.gathers and not lane.jobs:  # for nobody
            self._changed.notify_all()

    def _hand_on(self, lane: Lane | None) -> None:
        if lane is not None:
            self._handed.put(functools.partial(self._compute_batches, lane))

    def _hand_slot_on(self, lane: Lane) -> None:
        """Ends a batch that a request's own thread computed."""
        with self._changed:
            if self._unread:
                self._handed.put(functools.partial(self._read_on, lane))
            else:
                self._hand_on(self._next(lane))

    def _compute_batches(self, lane: Lane | None) -> None:
        """Batch after batch, from this one on, while there are any for its slot."""
        while lane is not None:
            self._compute_batch(lane)
            lane = self._read(lane)

    def _read_on(self, lane: Lane) -> None:
        """Batch after batch, from the one after this."""
        self._compute_batches(self._read(lane))

    def _compute_batch(self, lane: Lane) -> None:
        """Computes and answers one that was started."""
        batch = self._gather(lane)
        begin = time.perf_counter()
        compute(batch)
        with self._changed:
            if batch:  # else all have left while it was gathered
                lane.computed(len(batch), time.perf_counter() - begin)
        self._advance((job.request, job.error) for job in batch)

    def _read(self, lane: Lane) -> Lane | None:
        """Reads what came while a batch was computed; the lane of the next, which has its slot."""
        with self._changed:
            lane.begin(len(self._unread))
            unread = self._take_unread()
        self._advance(unread)
        with self._changed:
            following = self._next(lane)
            unread = self._take_unread()  # came meanwhile, and may be of the next batch
        self._advance(unread)
        with self._changed:
            more = self._start_all()
            if following is None:
                return more
            self._hand_on(more)
            return following

    def _take_unread(self) -> list[tuple[Request, None]]:
        unread, self._unread = self._unread, deque()
        for request in unread:
            request.is_unread = False
        return [(request, None) for request in unread]

    def _next(self, lane: Lane) -> Lane | None:
        """Ends a batch; the lane of the next one, which has its slot."""
        lane.running -= 1
        self._free += 1
        following = self._start_all()
        self._forget_idle(lane)
        return following

    def _start_all(self) -> Lane | None:
        """Starts the lanes that have a slot; the oldest one is for whoever asks."""
        oldest = self._start_oldest()
        if oldest is not None:
            while (other := self._start_oldest()) is not None:
                self._hand_on(other)
        return oldest

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
            for one in lane.jobs:
                if batch and size + one.size > limit:
                    break
                batch.append(one)
                size += one.size
            del batch[few_sizes(batch) :]
            for one in batch:
                lane.jobs.popleft()
                self._dequeue(one)
            lane.begin(len(batch))
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

    def _dequeue(self, job: Job) -> None:
        job.is_waiting = False
        self._waiting[job.queue] -= job.size
        if not self._waiting[job.queue]:
            del self._waiting[job.queue]

    def _forget_idle(self, lane: Lane) -> None:
        if not lane.jobs and not lane.running:
            del self._lanes[lane.key]


def _patience(request: Request) -> float:
    """How long a request waits before it is looked after."""
    left = request.deadline - time.perf_counter()
    if request.is_unread:
        return max(min(left / 2, _UNREAD_SECONDS), 0.0)  # half: there may be a slot for it
    return left if 0 < left < _LOOK_AGAIN_SECONDS else _LOOK_AGAIN_SECONDS


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("The deadline had passed before the computation began.")


def _work(handed: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    for work in iter(handed.get, None):
        work()
        del work  # it holds the scheduler, whose end is that of its threads


def _stop(handed: queue.SimpleQueue[Callable[[], None] | None], threads: int) -> None:
    for _ in range(threads):
        handed.put(None)
