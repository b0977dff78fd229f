"""Jobs that note what they were computed with; no model is loaded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from serving.batching.jobs import Job
from serving.batching.scheduler import Scheduler
from serving.common.call import Call
from serving.config.batching import BatchingParameters


class Work:
    """Computes double of each payload; the first batch waits until it is let go."""

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
            self.batches.append([job.payload for job in batch])
            self.threads.append(threading.current_thread().name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(10)
        for job in batch:
            job.results = 2 * job.payload
        with self._lock:
            self.running -= 1

    def job(self, payload: Any, *, lane: str = "a", size: int = 1, **options: Any) -> Job:
        call = options.pop("call", None) or Call("Predict")
        parameters = BatchingParameters(**options)
        return Job(lane, "queue", parameters, size, call, self, payload)


def compute(scheduler: Scheduler, job: Job) -> Any:
    """The results of a request that is this job and nothing else."""

    async def results() -> Any:
        return await job

    return scheduler.answer(results(), job.call)
