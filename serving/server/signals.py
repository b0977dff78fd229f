"""Waits for the signals that end a process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from multiprocessing.connection import wait as wait_for
from typing import Self


class Signals:
    """Catches signals from now on. Create it in the main thread of a process.

    Python runs signal handlers in the main thread, but only once that thread runs again. If the
    system delivers the signal to another thread, a main thread that waits for a queue or a lock
    sleeps on. A file descriptor wakes it in every case. The end of a `with` block restores the
    handlers from before, so that a process that waits for its threads can be stopped.

    Args:
        numbers: The signals to catch.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Signals without a handler are not written to the descriptor.
        self._before = {number: signal.signal(number, lambda *_: None) for number in numbers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Restores the handlers from before, and sends signals again that were not waited for."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if wait_for([self._reader], 0):
            os.kill(os.getpid(), self.wait())

    def wait(self) -> int:
        """Waits for a signal and returns its number."""
        return os.read(self._reader, 1)[0]

    @contextlib.contextmanager
    def calling(self, end: Callable[[int], object]) -> Iterator[None]:
        """Calls `end` in a thread with the first signal during the block."""
        end_reader, end_writer = os.pipe()

        def watch() -> None:
            if self._reader in wait_for([self._reader, end_reader]):
                end(self.wait())

        thread = threading.Thread(target=watch, name="signals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(end_writer)
            thread.join()
            os.close(end_reader)

    def on_ctrl_c(self, end: Callable[[], object]) -> None:
        """Calls `end` in a thread at the next Ctrl-C; other signals are ignored."""

        def watch() -> None:
            while self.wait() != signal.SIGINT:
                pass
            end()

        threading.Thread(target=watch, name="ctrl_c", daemon=True).start()
