"""Jobs that expire, that meet a full queue, or that fail."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.batching.jobs import Job
from serving.batching.scheduler import BatchScheduler
from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    Unavailable,
)
from tests.serving.batching.work import Work, compute, number_of
from tests.serving.conftest import wait_until
from tests.serving.traces import trace


def test_a_full_queue_rejects_at_once() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    options = {"max_batch_size": 2, "max_enqueued_batches": 2}
    with ThreadPoolExecutor(5) as pool:
        pool.submit(compute, scheduler, work.job(0, **options))
        wait_until(lambda: len(work.batches) == 1)
        found = [pool.submit(compute, scheduler, work.job(i, **options)) for i in range(1, 5)]
        wait_until(lambda: scheduler._waiting["s"] == 4)
        with pytest.raises(Unavailable, match="to which this task was submitted is full"):
            compute(scheduler, work.job(5, **options))
        work.go.set()
        assert [f.result() for f in found] == [2, 4, 6, 8]
    assert compute(scheduler, work.job(5, **options)) == 10, "there is room again"


def test_an_expired_job_is_not_computed() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        late = work.job(1, request=trace(remaining=lambda: 0.02))
        with pytest.raises(DeadlineExceeded):
            compute(scheduler, late)
        work.go.set()
    assert work.batches == [[0]]
    assert not scheduler._waiting
    assert not scheduler._queues


def test_a_job_past_its_deadline_takes_no_room() -> None:
    work, scheduler = Work(), BatchScheduler(1)
    with pytest.raises(DeadlineExceeded):
        compute(scheduler, work.job(1, request=trace(remaining=lambda: 0.0)))
    assert not scheduler._waiting
    assert not work.batches


def test_disconnected_clients_are_left_out_of_the_batch() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(3) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        gone = pool.submit(compute, scheduler, work.job(1, request=trace(is_active=lambda: False)))
        wait_until(lambda: scheduler._waiting["s"] == 1)
        stays = pool.submit(compute, scheduler, work.job(2))
        wait_until(lambda: scheduler._waiting["s"] == 2)
        work.go.set()
        with pytest.raises(Cancelled):
            gone.result()
        assert stays.result() == 4
    assert work.batches == [[0], [2]]


def test_a_failing_job_does_not_fail_its_batch() -> None:
    class Poisoned(Work):
        def __call__(self, batch: Sequence[Job]) -> None:
            super().__call__(batch)
            if any(number_of(job) == 13 for job in batch):
                raise InvalidArgument("13")

    work, scheduler = Poisoned(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        found = [pool.submit(compute, scheduler, work.job(i)) for i in (12, 13, 14)]
        wait_until(lambda: scheduler._waiting["s"] == 3)
        work.go.set()
        assert [found[0].result(), found[2].result()] == [24, 28]
        with pytest.raises(InvalidArgument, match="13"):
            found[1].result()


@pytest.mark.parametrize("fault", [KeyError("x"), SystemExit(3)], ids=["error", "exit"])
def test_an_exception_becomes_internal_and_frees_the_slot(fault: BaseException) -> None:
    """In a request's own thread, and in a pool thread."""
    work, scheduler = Work(holds=True), BatchScheduler(1)

    def fail(batch: Sequence[Job]) -> None:
        work(batch)
        raise fault

    with ThreadPoolExecutor(3) as pool:
        found = []
        for number, run in enumerate((fail, fail, work)):
            job = work.job(number, key=str(number), run=run)
            found.append(pool.submit(compute, scheduler, job))
            wait_until(lambda n=number: len(work.batches) + scheduler._waiting["s"] == n + 1)
        work.go.set()
        for one in found[:2]:
            with pytest.raises(Internal, match=type(fault).__name__):
                one.result(10)
        assert found[2].result(10) == 4
    wait_until(lambda: scheduler._free == 1)
    assert not scheduler._queues


def test_a_broken_context_fails_only_its_own_job() -> None:
    def fail() -> bool:
        raise KeyError("x")

    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        faulty = pool.submit(compute, scheduler, work.job(1, request=trace(is_active=fail)))
        other = pool.submit(compute, scheduler, work.job(2))
        wait_until(lambda: scheduler._waiting["s"] == 2)
        work.go.set()
        assert [first.result(10), other.result(10)] == [0, 4]
        with pytest.raises(Internal, match="KeyError"):
            faulty.result(10)
