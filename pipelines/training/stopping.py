"""The early end of a training: SIGTERM, Ctrl-C, and divergence."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pipelines.common.errors import PipelineError


class Stopped(PipelineError):
    """The training was asked to stop and has saved a checkpoint."""


class Diverged(PipelineError):
    """The error for a training with NaN or infinite numbers."""


def diverged(what: str) -> Diverged:
    """Returns the error of a training that cannot go on."""
    return Diverged(f"Training diverged: {what}. Lower `training.learning_rate`.")


class StopRequest:
    """A request to stop, made by a signal."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.before: dict[int, Any] = {}

    @property
    def made(self) -> bool:
        """Whether a signal has arrived."""
        return self.number is not None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number == number == signal.SIGINT:  # the second Ctrl-C
            raise KeyboardInterrupt
        self.number = number

    def obey(self) -> None:
        """Runs the signal's previous handler, then raises `Stopped`."""
        handler = None if self.number is None else self.before.get(self.number)
        if self.number is not None and callable(handler):
            handler(self.number, None)
        raise Stopped("Training was asked to stop. Run the same command again to continue.")


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Catches the signals while the block runs; only in the main thread, as Python requires."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    for caught in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(caught) != signal.SIG_IGN:  # background jobs of a shell ignore Ctrl-C
            request.before[caught] = signal.signal(caught, request)
    try:
        yield request
    finally:
        for number, handler in request.before.items():
            signal.signal(number, handler)
