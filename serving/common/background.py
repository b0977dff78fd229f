"""The thread that loads and frees models, and the ones that look for work from time to time.

Loading competes with requests for processors and for Python's lock, and the slowest of them
show it: users of TensorFlow Serving report a 99th percentile of 20 ms that becomes 100 while a
version loads. So one thread loads, one thing at a time.
What computes for long and needs the lock for moments has a low priority (`unhurried`), where the
system gives one to a thread. Nothing else has: requests would wait for a lock that is held by a
thread which itself waits for a processor.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import TypeVar

from serving.common.errors import DeadlineExceeded, ServingError, Unavailable

_LOGGER = logging.getLogger(__name__)
_NICENESS, _NICEST = 10, 19  # as Linux counts them

Result = TypeVar("Result")


class Stopping(Unavailable):
    """Nothing is taken any more."""


class Background:
    """One thread that does what it is given, one thing after the other.

    It starts at once, so that its priority is that of who makes it, not of who has work first.

    Args:
        name: Of the thread.
        helpers: Other such threads, for what one thing consists of (`each`); 0: it is alone.
    """

    def __init__(self, name: str, helpers: int = 0) -> None:
        self._executor = futures.ThreadPoolExecutor(1, name)
        self._executor.submit(lambda: None)
        self._helpers = futures.ThreadPoolExecutor(helpers, f"{name}-helper") if helpers else None

    def run(self, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """What `work` returns or raises, once everything before it is done.

        Raises:
            Stopping: The thread was stopped before it came to it.
            DeadlineExceeded: It was not done within `timeout` seconds.
        """
        future = self._submit(work)
        try:
            return future.result(timeout)
        except futures.CancelledError as error:
            raise _stopping() from error
        except TimeoutError as error:
            future.cancel()
            raise DeadlineExceeded(
                "The deadline passed before the models were up to date."
            ) from error

    def each(self, works: Iterable[Callable[[], object]]) -> list[Exception]:
        """Does all of these, at once where there are helpers, and returns what they raise.

        To be called in what `run` or `leave` does.
        """
        how = map if self._helpers is None else self._helpers.map
        return [error for error in how(_raised, works) if error is not None]

    def leave(self, work: Callable[[], object]) -> None:
        """Has `work` done some time; nothing where the thread was stopped."""
        with contextlib.suppress(Stopping):
            self._submit(functools.partial(_logged, work))

    def stop(self) -> None:
        """Waits for what is being done; what waits for its turn is not done any more."""
        self._executor.shutdown(cancel_futures=True)
        if self._helpers is not None:
            self._helpers.shutdown()

    def _submit(self, work: Callable[[], Result]) -> futures.Future[Result]:
        try:
            return self._executor.submit(work)
        except RuntimeError as error:  # the executor's word for being shut down
            raise _stopping() from error


class Periodic:
    """A thread that calls a function every so many seconds.

    Args:
        name: Name of the thread.
        action: What it calls; a failure is logged, the same one once, and the next call comes.
    """

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name = name
        self._action = action
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = ""  # the failure that was logged last; none where the last call had none

    def start(self, wait_seconds: float) -> None:
        """Calls for the first time after `wait_seconds`."""
        self._thread = threading.Thread(
            target=self._work, args=(wait_seconds,), name=self._name, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends the calls and waits for the one that is under way."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, wait_seconds: float) -> None:
        while not self._stopped.wait(wait_seconds):
            try:
                self._action()
                self._told = ""
            except Stopping:
                return
            except ServingError as error:
                if str(error) != self._told:
                    _LOGGER.warning("%s (the next look comes in %g s)", error, wait_seconds)
                self._told = str(error)
            except Exception:  # the next time may go better
                _LOGGER.exception("What goes on beside the requests failed")


def unhurried(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, done by a thread of its own with a low priority.

    Threads that it starts have its priority too. TensorFlow's compute threads are to be there
    before (`start_threads` of the runtime): the first operation starts them for all.
    """
    with futures.ThreadPoolExecutor(1, "unhurried", initializer=_lower_priority) as executor:
        return executor.submit(work).result()


def _lower_priority() -> None:
    # On Linux a thread has a priority of its own; elsewhere this would be the process's.
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(own + _NICENESS, _NICEST))


def _raised(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:  # its caller's to judge: the others go on
        return error
    return None


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:  # nobody waits for it
        _LOGGER.exception("What goes on beside the requests failed")


def _stopping() -> Stopping:
    return Stopping("The server is stopping: models do not change any more.")
