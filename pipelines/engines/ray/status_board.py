"""The status of all workers of a training, and the command they get in return.

Runs as an actor on the Ray cluster; the command line that started the training reads it.
"""

from __future__ import annotations

import re
import time
from enum import Enum
from typing import NamedTuple

_PATIENCE = 60.0  # seconds from the first failure until the other workers are ended


class WorkerStatus(NamedTuple):
    """A worker's output since its last report, its exit code once it has ended, and its stderr."""

    printed: str
    code: int | None
    error: str


class Command(Enum):
    """The next thing for a worker to do."""

    CONTINUE = "go on"
    STOP = "stop"  # save and end
    END = "end"  # at once


class StatusUpdate(NamedTuple):
    """The first worker's output since the last update, and the first failure, if any."""

    printed: str
    failure: str


class StatusBoard:
    """Collects the status of all workers."""

    def __init__(self, workers: int) -> None:
        self._codes: list[int | None] = [None] * workers
        self._printed = self._failure = ""
        self._deadline = float("inf")
        self._command = Command.CONTINUE
        self._started = False

    def report(self, index: int, state: WorkerStatus) -> Command:
        """Records a status; returns END once all have ended or a failure is a minute old."""
        self._started = True
        self._codes[index] = state.code
        if index == 0:
            self._printed += state.printed
        if state.code and not self._failure:
            self._failure = failure_message(index, len(self._codes), state)
            self._deadline = time.monotonic() + _PATIENCE
        if None not in self._codes or time.monotonic() > self._deadline:
            self._command = Command.END
        return self._command

    def send(self, command: Command) -> bool:
        """Sends all workers a command; returns whether any has started."""
        self._command = command
        return self._started

    def take_update(self) -> StatusUpdate:
        """Returns the update since the last call."""
        update = StatusUpdate(self._printed, self._failure)
        self._printed = ""
        return update


def failure_message(index: int, count: int, state: WorkerStatus) -> str:
    """A worker's own error message, or its exit code and last line."""
    message = re.search(r"^Error: (.*)", state.error, re.MULTILINE | re.DOTALL)
    if message:
        return message[1].rstrip()
    last = "".join(f": {line}" for line in state.error.strip().splitlines()[-1:])
    return (
        f"Worker {index} of {count} ended with exit code {state.code}{last}. Start again: training "
        "resumes from the last checkpoint."
    )
