"""The file of the events that were not counted."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["late", "ahead", "invalid"]


class DeadLetter(NamedTuple):
    """An event that was not counted.

    Attributes:
        kind: `"late"`, `"ahead"` of the clock, or `"invalid"`.
        reason: A sentence.
        source: The file, or the partition.
        at: Where the event is there: its row, its first byte, or its offset.
        event: The event.
    """

    kind: Kind
    reason: str
    source: str
    at: int
    event: Any


class DeadLetters:
    """A file of JSON lines; it is made with the first event.

    An event is on disk before the log is read further. After a crash its last events may be there
    twice.

    Args:
        path: The file; lines are added at its end.

    Attributes:
        counts: How many events of each kind were written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[Kind] = Counter()

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Adds events."""
        if not letters:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            for letter in letters:
                file.write(json.dumps(letter._asdict(), default=str) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.counts.update(letter.kind for letter in letters)
