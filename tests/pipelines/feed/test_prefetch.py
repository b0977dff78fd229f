"""The prefetcher: bounded, and stopped in every case."""

import functools
import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from pipelines.common.errors import PipelineError
from pipelines.feed.prefetch import Prefetcher


def running(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            pytest.fail("nothing happened")
        time.sleep(0.001)


def test_prefetch_is_bounded():
    made = []

    def numbers():
        for number in range(99):
            made.append(number)
            yield number

    with Prefetcher(numbers(), 3, "ahead") as items:
        for taken in range(7):
            wait_until(functools.partial(lambda size: len(made) == size, taken + 3))
            time.sleep(0.01)
            assert len(made) == taken + 3
            assert next(items) == taken


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["close", "with", "forget"])
def test_prefetcher_can_be_closed_early(how):
    closed = threading.Event()

    def numbers():
        try:
            while True:
                yield 7
        finally:
            closed.set()

    items = Prefetcher(numbers(), 5, "ended")
    assert next(items) == 7
    if how == "close":
        items.close()
    elif how == "with":
        with items:
            pass
    if how != "forget":
        assert list(items) == []
    del items
    gc.collect()
    wait_until(lambda: not running("ended"))
    assert closed.is_set()


def test_error_is_raised_after_earlier_items():
    def numbers():
        yield 1
        raise PipelineError("part-00003.parquet is damaged.")

    items = Prefetcher(numbers(), 5, "failing")
    assert next(items) == 1
    with pytest.raises(PipelineError, match=r"part-00003"):
        next(items)
    assert not running("failing")
    assert list(items) == []


def test_waiting_is_counted():
    def slow():
        for _ in range(3):
            time.sleep(0.05)
            yield

    items = Prefetcher(slow(), 1, "slow")
    for _ in items:
        pass
    assert items.waited > 0.1
    quick = Prefetcher(iter_of(3), 9, "quick")
    wait_until(lambda: not running("quick"))
    list(quick)
    assert quick.waited < 0.05


def iter_of(count):
    yield from range(count)


PROGRAM = """
import signal, sys, time
from pipelines.feed.prefetch import Prefetcher

def numbers():
    yield from range(3)
    while True:
        time.sleep(1)
        yield 3

# A shell's background ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
items = Prefetcher(numbers(), 2, "at work")
print([next(items) for _ in range(3)], flush=True)
if sys.argv[1] == "interrupt":
    next(items)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["interrupt", "nothing left to do"])
def test_program_can_end_while_thread_works(ending):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[0, 1, 2]\n"
        if ending == "interrupt":
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert ("KeyboardInterrupt" in errors) == (ending == "interrupt")
    assert (process.returncode == 0) == (ending != "interrupt")
