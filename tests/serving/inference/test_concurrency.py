"""How many requests are answered at once, and what becomes of those that wait for their turn."""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.common.errors import Cancelled, DeadlineExceeded, ResourceExhausted
from serving.inference.concurrency import Silent, Turns
from tests.serving.conftest import wait_until
from tests.serving.traces import trace


def test_no_more_are_answered_at_once_than_may_be() -> None:
    turns, lock, running, most = Turns(3), threading.Lock(), 0, 0

    def answer(_: int) -> None:
        nonlocal running, most
        with turns.taken(trace("Predict")):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= 1

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(answer, range(100)))
    assert (most, running) == (3, 0)


def test_turns_come_in_the_order_of_the_requests() -> None:
    turns, order = Turns(1), []

    def answer(number: int) -> None:
        with turns.taken(trace("Predict")):
            order.append(number)

    waiters = [threading.Thread(target=answer, args=(number,)) for number in range(7)]
    with turns.taken(trace("Predict")):
        for count, waiter in enumerate(waiters, 1):
            waiter.start()
            wait_until(lambda count=count: len(turns._waiting) == count)
    for waiter in waiters:
        waiter.join(5.0)
    assert order == list(range(7))


def test_who_waits_longer_than_his_deadline_has_no_turn() -> None:
    turns = Turns(1)
    late = trace("Predict", remaining=lambda: 0.05)
    with turns.taken(trace("Predict")), pytest.raises(DeadlineExceeded), turns.taken(late):
        pytest.fail("It had a turn.")
    assert late.queue_seconds >= 0.05
    with turns.taken(trace("Predict", remaining=lambda: 1.0)):
        pass


def test_who_went_while_he_waited_has_no_turn() -> None:
    turns = Turns(1)
    is_here = True
    found: list[Exception] = []

    def wait() -> None:
        try:
            with turns.taken(trace("Predict", is_active=lambda: is_here)):
                found.append(AssertionError("It had a turn."))
        except Cancelled as error:
            found.append(error)

    with turns.taken(trace("Predict")):
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.05)
        is_here = False
    waiter.join(timeout=5.0)
    assert [type(error) for error in found] == [Cancelled]
    with turns.taken(trace("Predict", remaining=lambda: 1.0)):
        pass


def test_those_that_wait_count_under_the_limit() -> None:
    turns, leave = Turns(1, most=2), threading.Event()

    def answer() -> None:
        with turns.taken(trace("Predict")):
            leave.wait(5.0)

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(answer) for _ in range(2)]
        wait_until(lambda: _is_full(turns))
        with pytest.raises(ResourceExhausted, match=r"^2 requests"), turns.taken(trace("Predict")):
            pytest.fail("It had a turn.")
        leave.set()
        for one in answers:
            one.result()
    turns.require_room()


def _is_full(turns: Turns) -> bool:
    try:
        turns.require_room()
    except ResourceExhausted:
        return True
    return False


class _Caller:
    """A call whose message is still to come; stands for its context and its messages."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.is_ended = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.messages.get, None)

    def cancel(self) -> None:
        self.is_ended = True
        self.messages.put(None)


def _waits(caller: _Caller, silent: Silent) -> bool:
    return next(reversed(silent._calls), None) is caller


def test_of_too_many_silent_calls_the_oldest_is_ended() -> None:
    silent, callers = Silent(threads=6, patience=0.2), [_Caller() for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        found = []
        for caller in callers:
            found.append(pool.submit(silent.message, iter(caller), caller))
            wait_until(functools.partial(_waits, caller, silent))
        wait_until(lambda: callers[1].is_ended)
        assert [one.is_ended for one in callers] == [True, True, False, False, False]
        for number, caller in enumerate(callers):
            caller.messages.put(b"%d" % number)
        assert [one.result(5.0) for one in found] == [None, None, b"2", b"3", b"4"]
    assert not silent._calls


def test_in_a_burst_of_calls_none_is_ended() -> None:
    """All are silent until their messages are there, a moment later."""
    silent, callers = Silent(threads=6, patience=60.0), [_Caller() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        found = [pool.submit(silent.message, iter(one), one) for one in callers]
        wait_until(lambda: len(silent._calls) == 20)
        for caller in callers:
            caller.messages.put(b"here")
        assert [one.result(5.0) for one in found] == [b"here"] * 20
    assert not any(one.is_ended for one in callers)


def test_a_call_that_speaks_counts_no_more() -> None:
    silent, caller = Silent(threads=2), _Caller()
    for _ in range(10):
        caller.messages.put(b"")
        assert silent.message(iter(caller), caller) == b""
    assert not caller.is_ended


def test_a_call_that_fails_meanwhile_counts_no_more() -> None:
    def fails() -> Iterator[bytes]:
        raise ConnectionError
        yield b""

    silent, caller = Silent(threads=2), _Caller()
    with pytest.raises(ConnectionError):
        silent.message(fails(), caller)
    assert not silent._calls
