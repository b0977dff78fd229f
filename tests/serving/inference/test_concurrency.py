"""The limit of requests served at once, and its queue."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.common.errors import Cancelled, DeadlineExceeded, ResourceExhausted, ServingError
from serving.inference.concurrency import ConcurrencyLimit
from tests.serving.conftest import wait_until
from tests.serving.traces import trace


def test_no_more_run_at_once_than_the_limit() -> None:
    limit, lock, running, most = ConcurrencyLimit(3), threading.Lock(), 0, 0

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


def test_deadline_ends_the_wait() -> None:
    limit = ConcurrencyLimit(1)
    late = trace(remaining=lambda: 0.05)
    with limit.acquire(trace()), pytest.raises(DeadlineExceeded), limit.acquire(late):
        pytest.fail("It was served.")
    assert late.queue_seconds >= 0.05
    with limit.acquire(trace(remaining=lambda: 1.0)):
        pass


def test_client_that_left_while_waiting_is_not_served() -> None:
    limit = ConcurrencyLimit(1)
    is_here = True

    def wait() -> None:
        with limit.acquire(trace(is_active=lambda: is_here)):
            pytest.fail("It was served.")

    with ThreadPoolExecutor(1) as pool:
        with limit.acquire(trace()):
            waiter = pool.submit(wait)
            time.sleep(0.05)
            is_here = False
        with pytest.raises(Cancelled):
            waiter.result(5.0)
    with limit.acquire(trace(remaining=lambda: 1.0)):
        pass


def test_full_queue_rejects() -> None:
    limit, leave = ConcurrencyLimit(1, most=2), threading.Event()

    def serve() -> None:
        with limit.acquire(trace()):
            leave.wait(5.0)

    def is_full() -> bool:
        try:
            limit.require_room()
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
    limit.require_room()
