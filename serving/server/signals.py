"""Signals that end a process, for a main thread that waits for them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from multiprocessing.connection import wait as wait_for
from typing import Self


class Signals:
    """Catches signals; to be made in the main thread, of processes that handle no others.

    Python's handlers run when the main thread next computes something. Where the system has given
    the signal to another thread, one that waits for a queue or a lock sleeps on and never does. A
    descriptor wakes it whichever thread it was. At the end of a `with` block they are given back:
    what Python's own end waits for can then be ended.

    Args:
        numbers: Those that are caught from now on.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self._came, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        # Without a handler no number is written.
        self._before = {number: signal.signal(number, lambda *_: None) for number in numbers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Lets them do what they did before, also those that have come and were not waited for."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if wait_for([self._came], 0):
            os.kill(os.getpid(), self.wait())

    def wait(self) -> int:
        """The first that has come, or comes."""
        return os.read(self._came, 1)[0]

    @contextlib.contextmanager
    def ending(self, end: Callable[[int], object]) -> Iterator[None]:
        """Has a thread call `end` with the first that comes while the block runs."""
        over, leave = os.pipe()

        def watch() -> None:
            if self._came in wait_for([self._came, over]):
                end(self.wait())

        watching = threading.Thread(target=watch, name="signals", daemon=True)
        watching.start()
        try:
            yield
        finally:
            os.close(leave)
            watching.join()
            os.close(over)

    def on_ctrl_c(self, end: Callable[[], object]) -> None:
        """Has a thread call `end` at the next Ctrl-C; other signals are let pass."""

        def watch() -> None:
            while self.wait() != signal.SIGINT:
                pass
            end()

        threading.Thread(target=watch, name="ctrl_c", daemon=True).start()
