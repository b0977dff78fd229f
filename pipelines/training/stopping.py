"""What ends a training early: SIGTERM, Ctrl-C, and numbers that are none any more."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pipelines.common.errors import PipelineError


class Stopped(PipelineError):
    """The training was asked to end, and has saved a checkpoint to go on from."""


def diverged(what: str) -> PipelineError:
    """The error of a training whose numbers are none any more."""
    return PipelineError(f"Training diverged: {what}. Lower `training.learning_rate`.")


class StopRequest:
    """Whether the process was asked to end, and by which signal."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.before: dict[int, Any] = {}

    @property
    def made(self) -> bool:
        """Whether there was a signal."""
        return self.number is not None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number == number == signal.SIGINT:  # the second Ctrl-C
            raise KeyboardInterrupt
        self.number = number

    def obey(self) -> None:
        """Ends as the signal would have ended the process; raises in any case."""
        handler = None if self.number is None else self.before.get(self.number)
        if self.number is not None and callable(handler):
            handler(self.number, None)
        raise Stopped("Training was asked to stop. Run the same command again to go on.")


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Catches the signals while the block runs; in the main thread, where Python allows it."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    for caught in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(caught) != signal.SIG_IGN:  # as Ctrl-C is for a job in the background
            request.before[caught] = signal.signal(caught, request)
    try:
        yield request
    finally:
        for number, handler in request.before.items():
            signal.signal(number, handler)
