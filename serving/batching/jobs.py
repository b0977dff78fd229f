"""What waits for a batch: requests, the jobs that they wait for, and the lanes of jobs."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.common.call import Call
from serving.common.errors import ServingError
from serving.config.batching import BatchingParameters

# A batch that takes less is worth waiting for: one larger batch costs less than two at once.
_LIGHT_SECONDS = 0.005
_LIGHT_JOB_SECONDS = 0.0003  # about what else a request costs: so light ones wait for Python


@dataclass(eq=False)
class Job:
    """What a request has computed in a batch; to await it gives its results.

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
    request: Request = field(init=False, repr=False)  # of which it is a part
    queued: float = 0.0
    is_waiting: bool = False  # in its lane

    def __await__(self) -> Generator[Job, None, Any]:
        yield self
        return self.results


@dataclass(eq=False)
class Request:
    """A request on its way to its answer, from one job that it waits for to the next.

    Any thread may take it a step further, one at a time.

    Args:
        answer: Gives the answer; awaits jobs alone.
        call: Who waits.
    """

    answer: Coroutine[Job, None, Any]
    call: Call
    job: Job | None = None  # that it waits for
    is_unread: bool = False  # left to whoever reads what came while he was busy
    left_at: float = 0.0  # when that was
    deadline: float = math.inf
    # Held until it is answered; with many waiting it is cheaper than an event.
    undone: threading.Lock = field(default_factory=threading.Lock)
    _result: Any = None
    _error: BaseException | None = None

    def __post_init__(self) -> None:
        self.undone.acquire()
        remaining = self.call.remaining()
        if remaining is not None:
            self.deadline = time.perf_counter() + remaining

    def step(self, error: ServingError | None = None) -> Job | None:
        """Goes on to the next job; None: it is answered.

        Args:
            error: Why there are no results of the job that it waited for.
        """
        try:
            self.job = self.answer.send(None) if error is None else self.answer.throw(error)
            self.job.request = self
        except StopIteration as end:
            self._result, self.job = end.value, None
        except BaseException as raised:  # for whoever waits for the answer
            self._error, self.job = raised, None
        return self.job

    def result(self) -> Any:
        """The answer; what its coroutine raised is raised."""
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            self._error = None  # it holds this frame


@dataclass(eq=False)
class Lane:
    """The jobs that may share a batch, oldest first.

    Attributes:
        jobs: Those that wait.
        running: Threads that gather, compute or answer a batch of it.
        gathers: Whether one of them still takes what comes.
        is_light: Whether its last batch took little time to compute.
        until: When a light batch has ended its newest step, at the latest.
    """

    key: Hashable
    jobs: deque[Job] = field(default_factory=deque)
    running: int = 0
    gathers: bool = False
    is_light: bool = False
    until: float = 0.0

    @property
    def may_start(self) -> bool:
        """Whether its jobs are a batch for a free slot."""
        return bool(self.jobs) and not self.gathers and not self.ends_soon

    @property
    def ends_soon(self) -> bool:
        """Whether a thread of it is about to look for what came meanwhile."""
        # One that takes long after a light one, to compile or for ever, does not block the lane.
        seems_light = self.is_light and time.perf_counter() < self.until
        return self.running > 0 and not self.gathers and seems_light

    def begin(self, jobs: int) -> None:
        """Notes that a batch of so many jobs begins its next step."""
        self.until = time.perf_counter() + _light_seconds(jobs)

    def computed(self, jobs: int, seconds: float) -> None:
        """Notes what a batch of so many jobs took."""
        self.is_light = seconds < _light_seconds(jobs)
        self.begin(jobs)


def _light_seconds(jobs: int) -> float:
    return _LIGHT_SECONDS + jobs * _LIGHT_JOB_SECONDS


def few_sizes(jobs: Sequence[Job]) -> int:
    """How many of these make a batch: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... are few to compile."""
    count = len(jobs)
    if not jobs or jobs[0].parameters.allowed_batch_sizes:  # to which they are filled up
        return count
    step = 1 << max(count.bit_length() - 2, 0)
    return count // step * step
