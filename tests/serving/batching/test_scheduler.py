"""The scheduler of batches, with jobs that record how they were computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from serving.batching.jobs import BatchQueue, Job, fitting
from serving.batching.scheduler import BatchScheduler
from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    ServingError,
    Unavailable,
    VersionGone,
)
from tests.serving.batching.work import Work, bench, compute, number_of
from tests.serving.conftest import wait_until
from tests.serving.traces import deadline, trace


def test_job_alone_is_computed_in_its_own_thread() -> None:
    work = Work()
    assert compute(BatchScheduler(1), work.job(3)) == 6
    assert work.threads == [threading.current_thread().name]


def test_waiting_jobs_form_the_next_batch() -> None:
    work = Work(holds=True)
    traces = [trace() for _ in range(6)]
    with bench(work) as busy:
        others = [busy.submit(i + 1, request=one) for i, one in enumerate(traces)]
        busy.wait(6)
        work.go.set()
        assert [f.result() for f in (busy.first, *others)] == [0, 2, 4, 6, 8, 10, 12]
    assert [sorted(batch) for batch in work.batches] == [[0], [1, 2, 3, 4, 5, 6]]
    assert {one.batch_rows for one in traces} == {6}
    assert all(one.queue_seconds > 0 for one in traces)
    assert [name.partition("_")[0] for name in work.threads] == ["request", "batch"]


@pytest.mark.parametrize(
    ("count", "options", "sizes"),
    [
        (15, {}, [1, 12, 3]),  # few sizes
        (15, {"allowed_batch_sizes": (4, 1000)}, [1, 15]),  # padded
        (5, {"size": 3, "max_batch_size": 7}, [1, 2, 2, 1]),  # not larger than allowed
    ],
)
def test_sizes_of_batches(count: int, options: dict[str, Any], sizes: list[int]) -> None:
    work = Work(holds=True)
    with bench(work) as busy:
        for i in range(1, count + 1):
            busy.submit(i, **options)
        busy.wait(count)
    assert [len(batch) for batch in work.batches] == sizes


def test_batches_have_one_key_and_the_oldest_jobs_first() -> None:
    work = Work(holds=True)
    with bench(work) as busy:
        for number, lane in enumerate("bcbc"):
            busy.submit(number, key=lane)
            busy.wait(number + 1)
    assert work.batches == [[0], [0, 2], [1, 3]]


@pytest.mark.parametrize("light_seconds", [0.0, 0.5, 60.0])
def test_only_heavy_batches_run_side_by_side(
    light_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a light batch, one batch of both costs less than two at once."""
    monkeypatch.setattr("serving.batching.jobs._light_seconds", lambda jobs: light_seconds)
    long, light, work = Work(holds=True), Work(holds=True), Work()
    with bench(long, slots=2) as busy:
        second = busy.submit(1, light)
        wait_until(lambda: light.running == 1)
        third = busy.submit(2, work)
        busy.wait(1)
        light.go.set()
        if light_seconds == 60.0:
            wait_until(lambda: busy.scheduler._free == 1)
            assert not work.batches, "it waits for the batch of its key"
        else:
            assert third.result(10) == 4, "it takes the slot that is or stays free"
            assert long.running
        long.go.set()
        assert [one.result(10) for one in (busy.first, second, third)] == [0, 2, 4]
        busy.wait_idle(2)


def test_no_more_batches_than_slots_run_at_once() -> None:
    work = Work(holds=True)
    with bench(work, slots=2, is_busy=False) as free:
        found = [free.submit(i, key=str(i)) for i in range(8)]
        wait_until(lambda: len(work.batches) == 2)
        work.go.set()
        assert [f.result() for f in found] == [2 * i for i in range(8)]
    assert (work.most, len(work.batches)) == (2, 8)


def test_batch_waits_for_its_timeout_at_most() -> None:
    work, begin = Work(), time.monotonic()
    options = {"batch_timeout_micros": 20_000_000, "max_batch_size": 3}
    with bench(work, slots=4, is_busy=False) as free:
        found = [free.submit(i, **options) for i in range(3)]
        assert [f.result() for f in found] == [0, 2, 4]
        assert time.monotonic() - begin < 10, "a full batch waits no more"
        assert [sorted(batch) for batch in work.batches] == [[0, 1, 2]]
        assert free.submit(7, batch_timeout_micros=1000).result() == 14
        huge = {"batch_timeout_micros": 2**63 - 1, "max_batch_size": 2}
        found = [free.submit(i, request=trace(remaining=lambda: 1e12), **huge) for i in range(2)]
        assert [f.result(10) for f in found] == [0, 2]


def test_jobs_beyond_a_full_batch_use_a_free_slot() -> None:
    work = Work(holds=True)
    with bench(work, slots=2, is_busy=False) as free:
        free.submit(0, size=1, batch_timeout_micros=20_000_000, max_batch_size=2)
        free.wait(1)
        free.submit(1, size=2, batch_timeout_micros=0, max_batch_size=2)
        wait_until(lambda: work.running == 2)
    assert sorted(work.batches) == [[0], [1]]


@pytest.mark.parametrize("timeout", [0, 200])
def test_each_of_many_threads_gets_its_own_results(timeout: int) -> None:
    """Some have short deadlines; no result is lost or mixed up, and all slots are free again."""
    work, scheduler = Work(), BatchScheduler(3)

    def ask(number: int) -> tuple[int, Any]:
        remaining = {"remaining": deadline(1e-4)} if number % 11 == 0 else {}
        job = work.job(
            number, key="ab"[number % 2], size=1 + number % 3, max_batch_size=8,
            max_enqueued_batches=1000, batch_timeout_micros=timeout,
            request=trace(**remaining),
        )  # fmt: skip
        try:
            return number, compute(scheduler, job)
        except DeadlineExceeded:
            return number, None

    with ThreadPoolExecutor(16) as pool:
        for number, found in pool.map(ask, range(3000)):
            assert found == 2 * number or (found is None and number % 11 == 0)
    assert (scheduler._free, len(scheduler._queues), len(scheduler._waiting)) == (3, 0, 0)
    assert work.most <= 3


def test_full_queue_rejects_at_once() -> None:
    work, options = Work(holds=True), {"max_batch_size": 2, "max_enqueued_batches": 2}
    words = "^The batch scheduling queue to which this task was submitted is full$"
    with bench(work) as busy:
        found = [busy.submit(i, **options) for i in range(1, 5)]
        busy.wait(4)
        with pytest.raises(Unavailable, match=words) as caught:
            busy.submit(5, **options).result(10)
        assert caught.value.retry_after is not None
        work.go.set()
        assert [f.result() for f in found] == [2, 4, 6, 8]
        assert busy.submit(5, **options).result() == 10, "there is room again"


def test_batch_ends_before_its_first_deadline() -> None:
    """By the pace of the last batch; a job that is late anyway does not make it smaller."""
    work, queue = Work(), BatchQueue("a", pace=3.0)
    waits = [60.0, 1.0, 10.0, 60.0, 60.0, 60.0]
    for number, seconds in enumerate(waits):
        queue.jobs.append(work.job(number, request=trace(remaining=lambda s=seconds: s)))
    assert [number_of(job) for job in fitting(queue, 1000)] == [0, 1, 2]
    queue.jobs.extend(work.job(number) for number in (6, 7))
    queue.pace = 0.001
    assert len(fitting(queue, 1000)) == 8


def test_queue_counts_requests_and_not_their_candidates() -> None:
    work = Work(holds=True)
    with bench(work) as busy:
        found = [busy.submit(i, size=1000) for i in range(1, 14)]
        busy.wait(13)
        work.go.set()
        assert [f.result() for f in found] == [2 * i for i in range(1, 14)]
    assert [len(batch) for batch in work.batches] == [1] * 14


@pytest.mark.parametrize(
    ("seconds", "options"),
    [
        (0.0, {}),
        (0.02, {}),
        (0.1, {"batch_timeout_micros": 600_000_000, "max_batch_size": 2}),  # waits for a partner
    ],
)
def test_expired_job_is_not_computed(seconds: float, options: dict[str, Any]) -> None:
    work = Work(holds=True)
    with bench(work) as busy:
        late = busy.submit(1, request=trace(remaining=deadline(seconds)), **options)
        if options:
            busy.wait(1)
            work.go.set()
        with pytest.raises(DeadlineExceeded):
            late.result(10)
        work.go.set()
        assert busy.first.result(10) == 0
        busy.wait_idle()
        assert busy.submit(5).result() == 10
    assert work.batches == [[0], [5]]


def _fail() -> bool:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("leave", "error"), [(lambda: False, Cancelled), (_fail, Internal)], ids=["left", "broken"]
)
def test_jobs_of_disconnected_clients_leave_the_batch(leave: Any, error: Any) -> None:
    """They keep no place in the queue, which others may need."""
    work, is_active = Work(holds=True), lambda: True
    with bench(work) as busy:
        gone = busy.submit(1, request=trace(is_active=lambda: is_active()))
        busy.wait(1)
        is_active = leave
        busy.wait(0)
        stays = busy.submit(2)
        busy.wait(1)
        work.go.set()
        with pytest.raises(error):
            gone.result(10)
        assert stays.result(10) == 4
    assert work.batches == [[0], [2]]


def test_failing_job_does_not_fail_its_batch() -> None:
    class Poisoned(Work):
        def __call__(self, batch: Sequence[Job]) -> None:
            super().__call__(batch)
            if any(number_of(job) == 13 for job in batch):
                raise InvalidArgument("13")

    with bench(Poisoned(holds=True)) as busy:
        found = [busy.submit(i) for i in (12, 13, 14)]
        busy.wait(3)
        busy.work.go.set()
        assert [found[0].result(), found[2].result()] == [24, 28]
        with pytest.raises(InvalidArgument, match="13"):
            found[1].result()


@pytest.mark.parametrize("fault", [VersionGone("gone"), Unavailable("down"), InvalidArgument("x")])
def test_batch_is_computed_again_for_faults_of_requests(fault: ServingError) -> None:
    """And then without those whose clients have gone meanwhile."""
    is_here = True

    class Failing(Work):
        def __call__(self, batch: Sequence[Job]) -> None:
            nonlocal is_here
            super().__call__(batch)
            if len(batch) > 1:
                is_here = False
                raise fault

    with bench(Failing(holds=True)) as busy:
        jobs = [busy.submit(i, request=trace(is_active=lambda i=i: i < 3 or is_here))
                for i in (1, 2, 3)]  # fmt: skip
        busy.wait(3)
        busy.work.go.set()
        errors = [job.exception(10) for job in jobs]
    batches = [sorted(batch) for batch in busy.work.batches]
    if isinstance(fault, InvalidArgument):
        assert batches == [[0], [1, 2, 3], [1], [2]]
        assert errors[:2] == [None, None]
        assert isinstance(errors[2], Cancelled)
    else:
        assert batches == [[0], [1, 2, 3]]
        assert [str(error) for error in errors] == [str(fault)] * 3
        assert len(set(map(id, errors))) == 3, "each is raised in its own thread"


@pytest.mark.parametrize("fault", [KeyError("x"), SystemExit(3)], ids=["error", "exit"])
def test_exception_becomes_internal_and_frees_the_slot(fault: BaseException) -> None:
    """In a request's own thread, and in a pool thread."""
    work = Work(holds=True)

    def fail(batch: Sequence[Job]) -> None:
        work(batch)
        raise fault

    with bench(work, is_busy=False) as free:
        found = []
        for number, run in enumerate((fail, fail, work)):
            found.append(free.submit(number, key=str(number), run=run))
            wait_until(lambda n=number: len(work.batches) + free.scheduler._waiting["s"] == n + 1)
        work.go.set()
        for one in found[:2]:
            with pytest.raises(Internal, match=type(fault).__name__):
                one.result(10)
        assert found[2].result(10) == 4
        free.wait_idle()
