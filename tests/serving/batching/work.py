"""Jobs that record how they were computed; no model is loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from serving.batching.jobs import Job
from serving.batching.scheduler import BatchScheduler
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
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
        size: int = 1,
        run: Callable[[Sequence[Job]], None] | None = None,
        request: RequestTrace | None = None,
        **options: Any,
    ) -> Job:
        parameters = BatchingParameters(**options)
        inputs = {"number": number}
        return Job(key, "s", parameters, size, inputs, (), request or trace(), run or self)


def compute(scheduler: BatchScheduler, job: Job) -> Any:
    """The double of the job's number."""
    return scheduler.run(job)["number"]
