"""What comes while a light batch is computed is left to the thread that computes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from serving.batching.scheduler import Scheduler
from serving.common.call import Call
from serving.common.errors import Cancelled, DeadlineExceeded, Unavailable
from tests.serving.batching.work import Work, compute
from tests.serving.conftest import wait_until


class Busy:
    """A scheduler one of whose threads computes a batch of a light lane, until `go`."""

    def __init__(self, slots: int, pool: ThreadPoolExecutor) -> None:
        self.scheduler, self.pool = Scheduler(slots), pool
        self.first, self.light = Work(holds=True), Work(holds=True)
        self.go = self.light.go
        self.others: list[Future[Any]] = [
            pool.submit(compute, self.scheduler, self.first.job(0, lane="b"))
        ]
        wait_until(lambda: len(self.first.batches) == 1)
        self.others.append(pool.submit(compute, self.scheduler, self.light.job(1)))
        if slots == 1:
            wait_until(lambda: self.scheduler._waiting["queue"] == 1)
            self.first.go.set()
        wait_until(lambda: len(self.light.batches) == 1)
        self.scheduler._lanes["a"].computed(1, 0.0)

    def leave(self, request: Any, call: Call | None = None) -> Future[Any]:
        """Asks for an answer, which is left unread."""
        before = len(self.scheduler._unread)
        found = self.pool.submit(self.scheduler.answer, request, call or Call("Predict"))
        wait_until(lambda: len(self.scheduler._unread) == before + 1)
        return found

    def end(self) -> None:
        for work in (self.first, self.light):
            work.go.set()
        assert [one.result(10) for one in self.others] == [0, 2]
        wait_until(lambda: not self.scheduler._lanes)
        assert not self.scheduler._unread
        assert not self.scheduler._waiting


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    monkeypatch.setattr("serving.batching.jobs._light_seconds", lambda jobs: 60.0)
    monkeypatch.setattr("serving.batching.scheduler._UNREAD_SECONDS", 60.0)
    with ThreadPoolExecutor(8, "request") as pool:
        yield pool


def _thread() -> str:
    return threading.current_thread().name.partition("_")[0]


@pytest.mark.parametrize("slots", [1, 2])
def test_its_thread_reads_computes_and_answers(pool: ThreadPoolExecutor, slots: int) -> None:
    busy, work, threads = Busy(slots, pool), Work(), set()

    async def request(number: int) -> int:
        threads.add(_thread())
        found: int = await work.job(number)
        threads.add(_thread())
        return found

    found = [busy.leave(request(number)) for number in range(3)]
    busy.go.set()
    assert [one.result(10) for one in found] == [0, 2, 4]
    assert work.batches == [[0, 1, 2]]
    assert threads == {"batch"}
    busy.end()


def test_one_that_nobody_reads_for_long_is_read_by_its_own_thread(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch turned out to be none of the light ones, and another slot is free."""
    busy, work, threads = Busy(2, pool), Work(), set()
    busy.first.go.set()
    wait_until(lambda: busy.scheduler._free == 1)
    busy.scheduler._lanes["a"].computed(1, 0.0)
    monkeypatch.setattr("serving.batching.scheduler._UNREAD_SECONDS", 0.01)

    async def request() -> int:
        threads.add(_thread())
        found: int = await work.job(5, lane="b")
        return found

    assert pool.submit(busy.scheduler.answer, request(), Call("Predict")).result(10) == 10
    assert threads == {"request"}
    assert not busy.go.is_set()
    busy.end()


def test_one_that_nobody_reads_is_not_too_late_where_a_slot_is_free(
    pool: ThreadPoolExecutor,
) -> None:
    busy, work = Busy(2, pool), Work()
    busy.first.go.set()
    wait_until(lambda: busy.scheduler._free == 1)
    end = time.perf_counter() + 1.0
    call = Call("Predict", remaining=lambda: end - time.perf_counter())

    async def request() -> int:
        found: int = await work.job(5, lane="c", call=call)
        return found

    assert busy.leave(request(), call).result(10) == 10
    assert not busy.go.is_set()
    busy.end()


def test_a_deadline_that_passes_meanwhile(pool: ThreadPoolExecutor) -> None:
    busy, read = Busy(1, pool), []

    async def request() -> None:
        read.append(1)

    late = pool.submit(busy.scheduler.answer, request(), Call("Predict", remaining=lambda: 0.0))
    with pytest.raises(DeadlineExceeded):
        late.result(10)
    busy.end()
    assert not read


def test_a_caller_that_goes_meanwhile_is_not_computed(pool: ThreadPoolExecutor) -> None:
    busy, work, gone = Busy(1, pool), Work(), Call("Predict", is_active=lambda: False)

    async def request() -> Any:
        return await work.job(3, call=gone)

    found = busy.leave(request(), gone)
    busy.go.set()
    with pytest.raises(Cancelled):
        found.result(10)
    assert not work.batches
    busy.end()


def test_what_one_raises_is_its_own(pool: ThreadPoolExecutor) -> None:
    """While it is read, and after its batch; too much for the queue; and a way out of Python."""
    busy, work = Busy(1, pool), Work()

    async def unreadable() -> None:
        raise KeyError("x")

    async def unwritable() -> None:
        await work.job(4)
        raise SystemExit(3)

    async def large(size: int) -> Any:
        return await work.job(5, size=size, max_batch_size=10, max_enqueued_batches=1)

    async def good() -> Any:
        return await work.job(6)

    requests = (unreadable(), unwritable(), large(7), large(8), good())
    found = [busy.leave(request) for request in requests]
    busy.go.set()
    for one, error in zip(found[:2], (KeyError, SystemExit), strict=True):
        with pytest.raises(error):
            one.result(10)
    assert found[2].result(10) == 10
    with pytest.raises(Unavailable):
        found[3].result(10)
    assert found[4].result(10) == 12
    busy.end()


@pytest.mark.parametrize("lane", ["slow", "other"])
def test_what_comes_while_others_are_read_waits_for_no_other_batch(
    pool: ThreadPoolExecutor, lane: str
) -> None:
    """It is of the next batch, which is gathered meanwhile, or of another in a free slot."""
    busy, slow, work = Busy(2, pool), Work(holds=True), Work()
    reads, go = threading.Event(), threading.Event()
    options = {"batch_timeout_micros": 60_000_000, "max_batch_size": 2} if lane == "slow" else {}

    async def first() -> Any:
        reads.set()
        go.wait(10)
        return await slow.job(1, lane="slow", **options)

    async def second() -> Any:
        work.go.set()
        return await (slow if lane == "slow" else work).job(2, lane=lane, **options)

    busy.first.go.set()
    wait_until(lambda: busy.scheduler._free == 1)
    found = [busy.leave(first())]
    busy.go.set()
    reads.wait(10)
    found.append(busy.leave(second()))
    go.set()
    if lane == "other":
        assert found[1].result(10) == 4
        assert not found[0].done()
    slow.go.set()
    assert [one.result(10) for one in found] == [2, 4]
    assert slow.batches == ([[1, 2]] if lane == "slow" else [[1]])
    busy.end()
