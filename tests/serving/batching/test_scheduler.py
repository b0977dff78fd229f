"""The scheduler of batches, with jobs that record how they were computed."""

from __future__ import annotations

import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from serving.batching.scheduler import BatchScheduler
from serving.common.errors import DeadlineExceeded
from tests.serving.batching.work import Work, compute
from tests.serving.conftest import wait_until
from tests.serving.traces import trace


def test_a_job_alone_is_computed_in_its_own_thread() -> None:
    work = Work()
    assert compute(BatchScheduler(1), work.job(3)) == 6
    assert work.threads == [threading.current_thread().name]


def test_waiting_jobs_form_the_next_batch() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(7, "request") as pool:
        first = pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        jobs = [work.job(i) for i in range(1, 7)]
        others = [pool.submit(compute, scheduler, job) for job in jobs]
        wait_until(lambda: scheduler._waiting["s"] == 6)
        work.go.set()
        assert [f.result() for f in (first, *others)] == [0, 2, 4, 6, 8, 10, 12]
    assert [sorted(batch) for batch in work.batches] == [[0], [1, 2, 3, 4, 5, 6]]
    assert {job.trace.batch_rows for job in jobs} == {6}
    assert all(job.trace.queue_seconds > 0 for job in jobs)
    assert [name.partition("_")[0] for name in work.threads] == ["request", "batch"]


@pytest.mark.parametrize(
    ("allowed", "sizes"), [((), [1, 12, 3]), ((4, 1000), [1, 15])], ids=["any", "padded"]
)
def test_batches_have_few_sizes_unless_padded(allowed: tuple[int, ...], sizes: list[int]) -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(16) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        for i in range(1, 16):
            pool.submit(compute, scheduler, work.job(i, allowed_batch_sizes=allowed))
        wait_until(lambda: scheduler._waiting["s"] == 15)
        work.go.set()
    assert [len(batch) for batch in work.batches] == sizes


@pytest.mark.parametrize("light_seconds", [0.0, 60.0])
def test_only_heavy_batches_run_side_by_side(
    light_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a light batch, one batch of both costs less than two at once."""
    monkeypatch.setattr("serving.batching.jobs._light_seconds", lambda jobs: light_seconds)
    scheduler, works = BatchScheduler(2), [Work(holds=True), Work(holds=True), Work()]
    with ThreadPoolExecutor(3) as pool:
        found = []
        for number, work in enumerate(works):
            found.append(pool.submit(compute, scheduler, work.job(number)))
            wait_until(lambda: sum(len(work.batches) for work in works) == min(len(found), 2))
        wait_until(lambda: scheduler._waiting["s"] == 1)
        works[0].go.set()
        if light_seconds:
            wait_until(lambda: scheduler._free == 1)
            assert not works[2].batches, "it waits for the batch of its key"
        else:
            assert found[2].result(10) == 4, "it has the slot that is free"
        works[1].go.set()
        assert [one.result(10) for one in found] == [0, 2, 4]
    wait_until(lambda: scheduler._free == 2)
    assert not scheduler._queues


def test_a_long_batch_after_a_light_one_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("serving.batching.jobs._light_seconds", lambda jobs: 60.0)
    scheduler, light, long, work = BatchScheduler(2), Work(True), Work(True), Work()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(compute, scheduler, light.job(0))
        wait_until(lambda: len(light.batches) == 1)
        second = pool.submit(compute, scheduler, long.job(1))
        wait_until(lambda: len(long.batches) == 1)
        waits = pool.submit(compute, scheduler, work.job(2))
        wait_until(lambda: scheduler._waiting["s"] == 1)
        light.go.set()
        wait_until(lambda: scheduler._free == 1)
        for queue in scheduler._queues.values():
            queue.until = 0.0  # it takes longer
        comes = pool.submit(compute, scheduler, work.job(3))
        assert [first.result(10), waits.result(10), comes.result(10)] == [0, 4, 6]
        assert long.running
        long.go.set()
        assert second.result(10) == 2


def test_a_waiting_job_takes_a_slot_that_stays_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last batch of the key was light, and no other request arrives."""
    monkeypatch.setattr("serving.batching.jobs._light_seconds", lambda jobs: 0.5)
    scheduler, long, light, work = BatchScheduler(2), Work(True), Work(True), Work()
    with ThreadPoolExecutor(3) as pool:
        found = []
        for one in (long, light, work):
            found.append(pool.submit(compute, scheduler, one.job(len(found))))
            begun = min(len(found), 2)
            wait_until(lambda n=begun: len(long.batches) + len(light.batches) == n)
        wait_until(lambda: scheduler._waiting["s"] == 1)
        light.go.set()
        assert found[2].result(5) == 4
        assert long.running
        long.go.set()
        assert [one.result(10) for one in found] == [0, 2, 4]
    wait_until(lambda: scheduler._free == 2)
    assert not scheduler._queues


def test_a_batch_without_jobs_frees_its_slot() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        patient = {"batch_timeout_micros": 600_000_000, "max_batch_size": 2}
        hurry = trace(remaining=lambda: 0.1)
        late = pool.submit(compute, scheduler, work.job(1, request=hurry, **patient))
        wait_until(lambda: scheduler._waiting["s"] == 1)
        work.go.set()
        with pytest.raises(DeadlineExceeded):
            late.result(10)
        assert first.result(10) == 0
    wait_until(lambda: scheduler._free == 1)
    assert work.batches == [[0]]
    assert not scheduler._queues
    assert compute(scheduler, work.job(5)) == 10


def test_keys_are_kept_apart_and_the_oldest_is_first() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(6) as pool:
        pool.submit(compute, scheduler, work.job("first"))
        wait_until(lambda: len(work.batches) == 1)
        for number, lane in enumerate("bcbc"):
            pool.submit(compute, scheduler, work.job(f"{lane}{number}", key=lane))
            wait_until(lambda n=number: scheduler._waiting["s"] == n + 1)
        work.go.set()
    assert work.batches == [["first"], ["b0", "b2"], ["c1", "c3"]]


def test_a_batch_is_not_larger_than_allowed() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(1)
    with ThreadPoolExecutor(6) as pool:
        pool.submit(compute, scheduler, work.job(0))
        wait_until(lambda: len(work.batches) == 1)
        for number in range(1, 6):
            pool.submit(compute, scheduler, work.job(number, size=3, max_batch_size=7))
        wait_until(lambda: scheduler._waiting["s"] == 15)
        work.go.set()
    assert [len(batch) for batch in work.batches] == [1, 2, 2, 1]


def test_no_more_batches_than_slots_run_at_once() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(2)
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(compute, scheduler, work.job(i, key=str(i))) for i in range(8)]
        wait_until(lambda: len(work.batches) == 2)
        work.go.set()
        assert [f.result() for f in found] == [2 * i for i in range(8)]
    assert (work.most, len(work.batches)) == (2, 8)


def test_a_batch_waits_for_its_timeout_at_most() -> None:
    work, scheduler = Work(), BatchScheduler(4)
    options = {"batch_timeout_micros": 20_000_000, "max_batch_size": 3}
    with ThreadPoolExecutor(3) as pool:
        begin = time.monotonic()
        found = [pool.submit(compute, scheduler, work.job(i, **options)) for i in range(3)]
        assert [f.result() for f in found] == [0, 2, 4]
    assert time.monotonic() - begin < 10, "a full batch waits no more"
    assert [sorted(batch) for batch in work.batches] == [[0, 1, 2]]
    assert compute(scheduler, work.job(7, batch_timeout_micros=1000)) == 14


def test_jobs_beyond_a_full_batch_use_a_free_slot() -> None:
    work, scheduler = Work(holds=True), BatchScheduler(2)
    options = {"batch_timeout_micros": 20_000_000, "max_batch_size": 2}
    with ThreadPoolExecutor(3) as pool:
        pool.submit(compute, scheduler, work.job(0, size=1, **options))
        wait_until(lambda: scheduler._waiting["s"] == 1)
        pool.submit(
            compute, scheduler, work.job(1, size=2, **{**options, "batch_timeout_micros": 0})
        )
        wait_until(lambda: work.running == 2)
        work.go.set()
    assert sorted(work.batches) == [[0], [1]]


def test_huge_timeouts_and_deadlines_are_accepted() -> None:
    work, scheduler = Work(), BatchScheduler(1)
    options = {"batch_timeout_micros": 2**63 - 1, "max_batch_size": 2}
    with ThreadPoolExecutor(2) as pool:
        traces = [trace(remaining=lambda: 1e12) for _ in range(2)]
        jobs = [work.job(i, request=one, **options) for i, one in enumerate(traces)]
        assert list(pool.map(functools.partial(compute, scheduler), jobs, timeout=10)) == [0, 2]


@pytest.mark.parametrize("timeout", [0, 200])
def test_each_of_many_threads_gets_its_own_results(timeout: int) -> None:
    """Some have short deadlines; no result is lost or mixed up, and all slots are free again."""
    work, scheduler = Work(), BatchScheduler(3)

    def ask(number: int) -> tuple[int, Any]:
        patience = 1e-4 if number % 11 == 0 else None
        job = work.job(
            number,
            key="ab"[number % 2],
            size=1 + number % 3,
            max_batch_size=8,
            max_enqueued_batches=1000,
            batch_timeout_micros=timeout,
            request=trace(remaining=lambda: patience),
        )
        try:
            return number, compute(scheduler, job)
        except DeadlineExceeded:
            return number, None

    with ThreadPoolExecutor(16) as pool:
        for number, found in pool.map(ask, range(3000)):
            assert found == 2 * number or (found is None and number % 11 == 0)
    assert (scheduler._free, len(scheduler._queues), len(scheduler._waiting)) == (3, 0, 0)
    assert work.most <= 3
