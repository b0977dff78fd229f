"""Jobs that nobody waits for, that come to a full queue, or that fail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.batching.jobs import Job
from serving.batching.scheduler import Scheduler
from serving.common.call import Call
from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    Unavailable,
)
from tests.serving.batching.work import Work, compute
from tests.serving.conftest import wait_until


def test_a_full_queue_refuses_at_once() -> None:
    work, scheduler = Work(holds=True), Scheduler(1)
    options = {"max_batch_size": 2, "max_enqueued_batches": 2}
    with ThreadPoolExecutor(5) as pool:
        pool.submit(compute, scheduler, work.job(0, **options))
        wait_until(lambda: len(work.batches) == 1)
        found = [pool.submit(compute, scheduler, work.job(i, **options)) for i in range(1, 5)]
        wait_until(lambda: scheduler._waiting["queue"] == 4)
        with pytest.raises(Unavailable, match="to which this task was submitted is full"):
            compute(scheduler, work.job(5, **options))
        work.go.set()
        assert [f.result() for f in found] == [2, 4, 6, 8]
    assert compute(scheduler, work.job(5, **options)) == 10, "there is room again"


def test_a_deadline_that_passes_in_the_queue_is_not_computed() -> None:
    work, scheduler = Work(holds=True), Scheduler(1)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        late = work.job(1, call=Call("Predict", remaining=lambda: 0.02))
        with pytest.raises(DeadlineExceeded):
            compute(scheduler, late)
        work.go.set()
    assert work.batches == [[0]]
    assert not scheduler._waiting
    assert not scheduler._lanes


def test_a_deadline_that_passes_before_a_later_job_enters_its_queue() -> None:
    """Such as the second part of a request, or the first of one that took long to read."""
    first, blocks, work, scheduler = Work(holds=True), Work(holds=True), Work(), Scheduler(1)
    end = time.perf_counter() + 0.1
    call = Call("Predict", remaining=lambda: end - time.perf_counter())

    async def parts() -> None:
        await first.job(1, call=call)
        await work.job(2, call=call)

    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(scheduler.answer, parts(), call)
        wait_until(lambda: len(first.batches) == 1)
        other = pool.submit(compute, scheduler, blocks.job(3, lane="b"))
        wait_until(lambda: scheduler._waiting["queue"] == 1)
        wait_until(lambda: call.remaining() < 0)
        first.go.set()
        wait_until(lambda: len(blocks.batches) == 1)
        assert not scheduler._waiting, "it has not taken room in the queue"
        with pytest.raises(DeadlineExceeded):
            late.result(10)
        blocks.go.set()
        assert other.result(10) == 6
    assert not work.batches


def test_callers_that_have_gone_are_left_out_of_the_batch() -> None:
    work, scheduler = Work(holds=True), Scheduler(1)
    with ThreadPoolExecutor(3) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        gone = pool.submit(
            compute, scheduler, work.job(1, call=Call("Predict", is_active=lambda: False))
        )
        wait_until(lambda: scheduler._waiting["queue"] == 1)
        stays = pool.submit(compute, scheduler, work.job(2))
        wait_until(lambda: scheduler._waiting["queue"] == 2)
        work.go.set()
        with pytest.raises(Cancelled):
            gone.result()
        assert stays.result() == 4
    assert work.batches == [[0], [2]]


def test_one_that_fails_does_not_spoil_the_others() -> None:
    class Poisoned(Work):
        def __call__(self, batch: Sequence[Job]) -> None:
            super().__call__(batch)
            if any(job.payload == 13 for job in batch):
                raise InvalidArgument("13")

    work, scheduler = Poisoned(holds=True), Scheduler(1)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        found = [pool.submit(compute, scheduler, work.job(i)) for i in (12, 13, 14)]
        wait_until(lambda: scheduler._waiting["queue"] == 3)
        work.go.set()
        assert [found[0].result(), found[2].result()] == [24, 28]
        with pytest.raises(InvalidArgument, match="13"):
            found[1].result()


@pytest.mark.parametrize("fault", [KeyError("x"), SystemExit(3)], ids=["error", "exit"])
def test_a_fault_is_an_answer_and_lets_the_others_go_on(fault: BaseException) -> None:
    """In a request's own thread, and in one of the scheduler."""
    work, scheduler = Work(holds=True), Scheduler(1)

    def fail(batch: Sequence[Job]) -> None:
        work(batch)
        raise fault

    with ThreadPoolExecutor(3) as pool:
        found = []
        for number, run in enumerate((fail, fail, work)):
            job = work.job(number, lane=str(number))
            job.run = run
            found.append(pool.submit(compute, scheduler, job))
            wait_until(lambda n=number: len(work.batches) + scheduler._waiting["queue"] == n + 1)
        work.go.set()
        for one in found[:2]:
            with pytest.raises(Internal, match=type(fault).__name__):
                one.result(10)
        assert found[2].result(10) == 4
    wait_until(lambda: scheduler._free == 1)
    assert not scheduler._lanes


def test_a_call_that_cannot_be_asked_does_not_spoil_the_others() -> None:
    def fail() -> bool:
        raise KeyError("x")

    work, scheduler = Work(holds=True), Scheduler(1)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        faulty = pool.submit(compute, scheduler, work.job(1, call=Call("Predict", is_active=fail)))
        other = pool.submit(compute, scheduler, work.job(2))
        wait_until(lambda: scheduler._waiting["queue"] == 2)
        work.go.set()
        assert [first.result(10), other.result(10)] == [0, 4]
        with pytest.raises(Internal, match="KeyError"):
            faulty.result(10)
