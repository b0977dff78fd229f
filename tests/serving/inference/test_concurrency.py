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


@pytest.mark.parametrize(
    ("remaining", "leaves", "error"), [(0.05, False, DeadlineExceeded), (None, True, Cancelled)]
)
def test_wait_ends_with_its_deadline_or_client(
    remaining: float | None, leaves: bool, error: type[ServingError]
) -> None:
    limit, is_here = ConcurrencyLimit(1), True
    waiting = trace(remaining=lambda: remaining, is_active=lambda: is_here)

    def wait() -> None:
        with limit.acquire(waiting):
            pytest.fail("It was served.")

    with ThreadPoolExecutor(1) as pool:
        with limit.acquire(trace()):
            waiter = pool.submit(wait)
            time.sleep(0.06)
            is_here = not leaves
            if not leaves:
                wait_until(waiter.done)
        with pytest.raises(error):
            waiter.result(5.0)
    assert waiting.queue_seconds >= 0.05
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
