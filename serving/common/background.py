"""The thread that loads models, and threads that repeat an action.

Loading competes with requests for processors and for Python's lock: users of TensorFlow Serving
report a 99th percentile of 20 ms that rises to 100 while a version loads. So one thread loads
models, one after the other.
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
from serving.common.priority import lower_priority

_LOGGER = logging.getLogger(__name__)

Result = TypeVar("Result")


class Stopping(Unavailable):
    """The error for work that comes after `stop`."""


class SerialWorker:
    """A thread that runs one function after the other.

    Args:
        name: Name of the thread.
        helpers: Further threads, for the parts of one function (`run_all`). Defaults to 0; raise it
            to load several models at once.
        has_low_priority: Whether requests go first. Defaults to no; set it for work that
            computes beside them, outside of Python.
    """

    def __init__(self, name: str, helpers: int = 0, has_low_priority: bool = False) -> None:
        self._executor = futures.ThreadPoolExecutor(
            1, name, initializer=lower_priority if has_low_priority else None
        )
        self._helpers = futures.ThreadPoolExecutor(helpers, f"{name}-helper") if helpers else None

    def run(self, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """Returns the result of `work`, once all earlier work is done.

        Raises:
            Stopping: The thread was stopped before `work` began.
            DeadlineExceeded: `work` was not done within `timeout` seconds.
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

    def run_all(self, works: Iterable[Callable[[], object]]) -> list[Exception]:
        """Runs functions, at once if there are helpers, and returns their exceptions.

        To be called by a function that this thread runs.
        """
        map_all = map if self._helpers is None else self._helpers.map
        return [error for error in map_all(_exception, works) if error is not None]

    def schedule(self, work: Callable[[], object]) -> None:
        """Runs `work` later, without waiting for it; does nothing after `stop`."""
        with contextlib.suppress(Stopping):
            self._submit(functools.partial(_logged, work))

    def stop(self) -> None:
        """Waits for the running function and cancels the others."""
        self._executor.shutdown(cancel_futures=True)
        if self._helpers is not None:
            self._helpers.shutdown()

    def _submit(self, work: Callable[[], Result]) -> futures.Future[Result]:
        try:
            return self._executor.submit(work)
        except RuntimeError as error:  # the executor was shut down
            raise _stopping() from error


class PeriodicThread:
    """A thread that repeats an action.

    Args:
        name: Name of the thread.
        action: The function to call. Its exceptions are logged, the same one once, and the next
            call follows.
    """

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name = name
        self._action = action
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_error = ""  # of the last call; empty if it succeeded

    def start(self, wait_seconds: float) -> None:
        """Calls the action every `wait_seconds`, first after that time."""
        self._thread = threading.Thread(
            target=self._work, args=(wait_seconds,), name=self._name, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops the calls and waits for the running one."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, wait_seconds: float) -> None:
        while not self._stopped.wait(wait_seconds):
            try:
                self._action()
                self._last_error = ""
            except Stopping:
                return
            except ServingError as error:
                if str(error) != self._last_error:
                    _LOGGER.warning("%s (next attempt in %g s)", error, wait_seconds)
                self._last_error = str(error)
            except Exception:  # the next call may succeed
                _LOGGER.exception("Background work failed")


def _exception(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:  # the others must still run
        return error
    return None


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:  # no thread waits for the result
        _LOGGER.exception("Background work failed")


def _stopping() -> Stopping:
    return Stopping("The server is stopping: models no longer change.")
