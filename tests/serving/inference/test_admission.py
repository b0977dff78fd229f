"""Admission: how many requests are served at once, and which are refused."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from serving.common.errors import Cancelled, DeadlineExceeded, ResourceExhausted, ServingError
from serving.common.request import RequestContext
from serving.config.server_config import CPUS
from serving.inference.admission import Admission
from tests.serving.conftest import wait_until
from tests.serving.traces import deadline, trace


def test_no_more_run_at_once_than_the_limit() -> None:
    limit, lock, running, most = Admission(3), threading.Lock(), 0, 0

    def serve(_: int) -> None:
        nonlocal running, most
        with limit.acquire(trace()):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= 1

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(serve, range(100)))
    assert (most, running) == (3, 0)


@pytest.mark.parametrize(
    ("seconds", "leaves", "error"), [(0.05, False, DeadlineExceeded), (None, True, Cancelled)]
)
def test_wait_ends_with_its_deadline_or_client(
    seconds: float | None, leaves: bool, error: type[ServingError]
) -> None:
    """While the request before it is still served: a client that has gone keeps no place."""
    limit, is_here = Admission(1), True
    remaining = {} if seconds is None else {"remaining": deadline(seconds)}
    waiting = trace(is_active=lambda: is_here, **remaining)

    def wait() -> None:
        with limit.acquire(waiting):
            pytest.fail("It was served.")

    with ThreadPoolExecutor(1) as pool:
        with limit.acquire(trace()):
            waiter = pool.submit(wait)
            time.sleep(0.06)
            is_here = not leaves
            wait_until(waiter.done)
            assert (limit.working, limit.waiting) == (1, 0)
        with pytest.raises(error):
            waiter.result(5.0)
    assert waiting.queue_seconds >= 0.04
    with limit.acquire(trace(remaining=lambda: 1.0)):
        pass


def test_full_queue_rejects() -> None:
    limit, leave = Admission(1, most=2), threading.Event()

    def serve() -> None:
        with limit.acquire(trace()):
            leave.wait(5.0)

    def is_full() -> bool:
        try:
            limit.require_room(RequestContext("Predict"))
        except ServingError:
            return True
        return False

    with ThreadPoolExecutor(2) as pool:
        served = [pool.submit(serve) for _ in range(2)]
        wait_until(is_full)
        with pytest.raises(ResourceExhausted, match=r"^2 requests"), limit.acquire(trace()):
            pytest.fail("It was served.")
        leave.set()
        for one in served:
            one.result()
    limit.require_room(RequestContext("Predict"))


class Busy:
    """An admission that has served ten requests in a second, and now serves `present` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, present: int) -> None:
        self.now = 100.0
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr("serving.inference.admission.time", clock)
        self.admission = Admission(1000)
        self.enter(10)
        for leave in self.served:
            self.now += 0.1
            leave()
        self.enter(present)

    def enter(self, count: int, seconds: float = 60.0) -> None:
        self.served: list[Callable[[], None]] = []
        for _ in range(count):
            stack = contextlib.ExitStack()
            stack.enter_context(self.admission.acquire(trace(remaining=lambda: seconds)))
            self.served.append(stack.close)

    def refuses(self, seconds: float | None, is_low: bool = False, is_own: bool = True) -> bool:
        """Whether a request with so much time is refused."""
        context = RequestContext(
            "Predict", remaining=lambda: seconds, has_own_deadline=is_own, is_low_priority=is_low
        )
        try:
            self.admission.require_room(context)
        except ResourceExhausted:
            return True
        return False


def test_late_requests_are_refused_low_priority_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 29 before it, a request takes 3 s at ten a second."""
    busy = Busy(monkeypatch, 29)
    assert [busy.refuses(seconds) for seconds in (0.1, 5.9, 6.1, 60.0)] == [
        True,
        True,
        False,
        False,
    ]
    assert [busy.refuses(seconds, True) for seconds in (6.1, 11.9, 12.1)] == [True, True, False]
    assert busy.refuses(None), "a client without a deadline waits 5 s"
    with pytest.raises(ResourceExhausted, match=r"about 3\.000 s.* 0\.500 s") as caught:
        busy.admission.require_room(RequestContext("Predict", remaining=lambda: 1.0))
    np.testing.assert_allclose(caught.value.retry_after, 3.0)


def test_timeout_of_the_server_is_no_deadline_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deadline a client counts as waiting 5 s, or a shorter timeout of the server."""
    busy = Busy(monkeypatch, 29)  # another takes 3 s
    assert [busy.refuses(seconds, is_own=False) for seconds in (30.0, 1.0)] == [True, True]
    by_rest = RequestContext("Predict", remaining=lambda: 30.0, has_own_deadline=False)
    for _ in range(1000):
        busy.admission.note_patience(by_rest)
    with pytest.raises(ResourceExhausted):
        busy.admission.require_room_without_deadline(is_low=False)
    busy = Busy(monkeypatch, 19)  # 2 s
    assert [busy.refuses(seconds, is_own=False) for seconds in (30.0, 1.0)] == [False, True]


def test_idle_server_takes_requests_with_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the last answers were: the next one may be quick."""
    busy = Busy(monkeypatch, 0)
    assert not busy.refuses(0.01)
    busy.enter(1, 0.01)
    busy.now += 1000.0
    assert busy.refuses(1.0) == (CPUS == 1), "its second core is free"


def test_stalled_answers_refuse_new_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a version compiles for example, no answer tells the pace."""
    busy = Busy(monkeypatch, 3)
    assert not busy.refuses(1.0)
    busy.now += 2.0
    assert busy.refuses(1.0)
    for leave in busy.served:
        busy.now += 0.001
        leave()
    busy.enter(50)
    for leave in busy.served:
        busy.now += 0.01
        leave()
    busy.enter(3)
    assert not busy.refuses(0.5), "the pace is known again"


def test_pace_is_that_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty answers at once every 0.2 s are one in 0.01 s."""
    busy = Busy(monkeypatch, 0)
    for _ in range(50):
        busy.enter(20)
        busy.now += 0.2
        for leave in busy.served:
            leave()
    busy.enter(20)
    assert [busy.refuses(seconds) for seconds in (0.38, 0.46)] == [True, False]


def test_longest_recent_deadline_decides_before_one_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the deadline is known, none is refused that could be answered in time."""
    busy = Busy(monkeypatch, 29)
    busy.admission.require_room_without_deadline(is_low=False)  # the 29 wait for 60 s
    for _ in range(1000):
        busy.admission.note_patience(RequestContext("Predict", remaining=lambda: 1.0))
    with pytest.raises(ResourceExhausted):
        busy.admission.require_room_without_deadline(is_low=False)
    busy.admission.note_patience(RequestContext("Predict", remaining=lambda: 7.0))
    busy.admission.require_room_without_deadline(is_low=False)
    with pytest.raises(ResourceExhausted):
        busy.admission.require_room_without_deadline(is_low=True)


def test_waiting_and_working_requests_are_counted() -> None:
    admission, leave = Admission(1), threading.Event()

    def serve() -> None:
        with admission.acquire(trace()):
            leave.wait(5.0)

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(serve)
        wait_until(lambda: (admission.working, admission.waiting) == (1, 2))
        leave.set()
    assert (admission.working, admission.waiting) == (0, 0)


def test_requests_are_served_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have looked for their client meanwhile."""
    monkeypatch.setattr("serving.inference.admission._POLL_SECONDS", 0.001)
    admission, served = Admission(1), list[int]()

    def serve(number: int) -> None:
        with admission.acquire(trace()):
            served.append(number)

    with ThreadPoolExecutor(7) as pool, admission.acquire(trace()):
        for number in range(7):
            pool.submit(serve, number)
            wait_until(lambda n=number: admission.waiting == n + 1)
        time.sleep(0.02)
    assert served == list(range(7))
