"""The thread that loads and frees models, and the ones that look for work from time to time.

Loading competes with requests for processors and for Python's lock, and the slowest of them
show it: users of TensorFlow Serving report a 99th percentile of 20 ms that becomes 100 while a
version loads. So one thread loads, one thing at a time.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import TypeVar

from serving.common.errors import DeadlineExceeded, ServingError, Unavailable

_LOGGER = logging.getLogger(__name__)

Result = TypeVar("Result")


class Stopping(Unavailable):
    """Nothing is taken any more."""


class Background:
    """One thread that does what it is given, one thing after the other.

    Args:
        name: Of the thread.
        helpers: Other such threads, for what one thing consists of (`each`); 0: it is alone.
    """

    def __init__(self, name: str, helpers: int = 0) -> None:
        self._executor = futures.ThreadPoolExecutor(1, name)
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
