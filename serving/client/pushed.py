"""The answer of `Client.push`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pushed:
    """What became of pushed events.

    Attributes:
        counted: How many events were new. Users and items are written, and not counted.
        late: Places of events that were too late to be counted.
        ahead: Places of events of the future, which were not counted.
        repeated: Places of events that had been counted before.
    """

    counted: int
    late: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
