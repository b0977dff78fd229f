"""Where the workers of a training tell how they fare, and hear how it goes on.

It is an actor on the Ray cluster: the command that has started a training reads it.
"""

from __future__ import annotations

import re
import time
from enum import Enum
from typing import NamedTuple

_PATIENCE = 60.0  # seconds; what is left of the workers after the first has failed is ended then


class State(NamedTuple):
    """What a worker has printed since it last told, and how it ended, if it has."""

    printed: str
    code: int | None
    error: str


class Order(Enum):
    """What a worker is to do."""

    GO_ON = "go on"
    STOP = "stop"  # save and end
    END = "end"  # at once


class News(NamedTuple):
    """What the first worker has printed since the last news, and why a worker failed, if it did."""

    printed: str
    failure: str


class Board:
    """The states of all workers."""

    def __init__(self, workers: int) -> None:
        self._codes: list[int | None] = [None] * workers
        self._printed = self._failure = ""
        self._deadline = float("inf")
        self._order = Order.GO_ON
        self._started = False

    def tell(self, index: int, state: State) -> Order:
        """Takes a worker's state; once all have ended, or one has long failed, that is the end."""
        self._started = True
        self._codes[index] = state.code
        if index == 0:
            self._printed += state.printed
        if state.code and not self._failure:
            self._failure = sentence(index, len(self._codes), state)
            self._deadline = time.monotonic() + _PATIENCE
        if None not in self._codes or time.monotonic() > self._deadline:
            self._order = Order.END
        return self._order

    def order(self, order: Order) -> bool:
        """Gives all workers an order; tells whether any is there to hear it."""
        self._order = order
        return self._started

    def news(self) -> News:
        """What is new."""
        news = News(self._printed, self._failure)
        self._printed = ""
        return news


def sentence(index: int, count: int, state: State) -> str:
    """Why a worker has failed: its own sentence, or what else is known."""
    own = re.search(r"^Error: (.*)", state.error, re.MULTILINE | re.DOTALL)
    if own:
        return own[1].rstrip()
    last = "".join(f": {line}" for line in state.error.strip().splitlines()[-1:])
    return (
        f"Worker {index} of {count} ended with exit code {state.code}{last}. Start again: training "
        "goes on from the last checkpoint."
    )
