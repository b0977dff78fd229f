"""Jobs that record how they were computed, and a scheduler whose slot is taken; without models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from serving.batching.jobs import Job
from serving.batching.scheduler import BatchScheduler
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
from tests.serving.conftest import wait_until
from tests.serving.traces import trace


def number_of(job: Job) -> Any:
    """The number that a job of `Work` doubles."""
    return job.inputs["number"]


class Work:
    """Doubles the number of each job; with `holds`, batches wait for `go`."""

    def __init__(self, holds: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.threads: list[str] = []
        self.go = threading.Event()
        self._lock = threading.Lock()
        self.running = self.most = 0
        if not holds:
            self.go.set()

    def __call__(self, batch: Sequence[Job]) -> None:
        with self._lock:
            self.batches.append([number_of(job) for job in batch])
            self.threads.append(threading.current_thread().name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(10)
        for job in batch:
            job.results = {"number": 2 * number_of(job)}
        with self._lock:
            self.running -= 1

    def job(
        self,
        number: Any,
        *,
        key: str = "a",
        rows: int = 1,
        size: int = 1,
        run: Callable[[Sequence[Job]], None] | None = None,
        request: RequestTrace | None = None,
        **options: Any,
    ) -> Job:
        parameters = BatchingParameters(**options)
        inputs = {"number": number}
        return Job(key, "s", parameters, rows, size, inputs, (), request or trace(), run or self)


def compute(scheduler: BatchScheduler, job: Job) -> Any:
    """The double of the job's number."""
    return scheduler.run(job)["number"]


class Bench:
    """A scheduler, and threads that wait for its results.

    Args:
        work: Computes the batches.
        slots: Number of batches computed at once.
        pool: Threads of the requests.
    """

    def __init__(self, work: Work, slots: int, pool: ThreadPoolExecutor) -> None:
        self.work, self.scheduler, self._pool = work, BatchScheduler(slots), pool
        self.first: Future[Any]

    def submit(self, number: Any, work: Work | None = None, **options: Any) -> Future[Any]:
        job = (work or self.work).job(number, **options)
        return self._pool.submit(compute, self.scheduler, job)

    def wait(self, waiting: int) -> None:
        """Returns once so many rows wait for a slot."""
        wait_until(lambda: self.scheduler._waiting["s"] == waiting)

    def wait_idle(self, slots: int = 1) -> None:
        """Returns once all slots are free; no job and no queue is left then."""
        wait_until(lambda: self.scheduler._free == slots)
        assert not self.scheduler._queues
        assert not any(self.scheduler._waiting.values())


@contextmanager
def bench(work: Work, slots: int = 1, is_busy: bool = True) -> Iterator[Bench]:
    """Yields a bench; if it is busy, its first slot computes job 0 until `work.go` is set."""
    with ThreadPoolExecutor(16, "request") as pool:
        made = Bench(work, slots, pool)
        if is_busy:
            made.first = made.submit(0)
            wait_until(lambda: len(work.batches) == 1)
        yield made
        work.go.set()
