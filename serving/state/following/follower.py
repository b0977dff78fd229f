"""Adds the events of a log to a store, and puts those that do not count into a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.following.dead_letters import DeadLetter, DeadLetters, Kind
from serving.state.following.log import Log, LogRows
from serving.state.online.notes import FOLLOWED, Notes
from serving.state.online.writer import Prepared, StateWriter
from serving.state.stores.store import Store

_LATE = "The event is older than the newest one before it by more than `late` allows."
_AHEAD = "The event is more than 5 minutes ahead of the clock of this machine."


@dataclass
class Followed:
    """What became of the events of a log.

    Attributes:
        events: How many were read.
        counted: How many features have counted now.
        repeated: How many they had counted before.
        seconds: The time that it took to add them.
    """

    events: int = 0
    counted: int = 0
    repeated: int = 0
    seconds: float = 0.0


class Follower:
    """Adds the events of a log to a store.

    Args:
        store: The store.
        definition: The features.
        writer: Adds events to that store.
        log: The log.
        letters: The file of the events that are not counted.
        progress: Called after each batch.

    Attributes:
        followed: What became of the events so far.
    """

    def __init__(
        self,
        store: Store,
        definition: StateDefinition,
        writer: StateWriter,
        log: Log,
        letters: DeadLetters,
        progress: Callable[[Followed], object] | None = None,
    ) -> None:
        self._store, self._definition, self._writer = store, definition, writer
        self._log, self._letters, self._progress = log, letters, progress
        self.followed = Followed()

    def catch_up(self) -> None:
        """Adds all events that are there now.

        Raises:
            StoreUnavailable: The store cannot be written.
        """
        began = time.time()
        for rows in self._log.unread():
            start = time.perf_counter()
            self._add(rows)
            self.followed.seconds += time.perf_counter() - start
            if self._progress is not None:
                self._progress(self.followed)
            began = time.time()
        self._note_current(began)

    def follow(self, pause: float) -> None:
        """Adds events as they appear, until it is interrupted.

        Args:
            pause: Seconds between two looks for new ones.
        """
        while True:
            self.catch_up()
            time.sleep(pause)

    def _add(self, rows: LogRows) -> None:
        valid, prepared, letters = self._prepared(rows)
        letters += _not_counted(rows, valid, prepared)
        self._letters.write(letters)  # before the state moves on
        added = prepared.write()
        self.followed.events += len(rows.events)
        self.followed.repeated += int(added.repeated.sum())
        self.followed.counted += int((~(added.repeated | added.late | added.ahead)).sum())

    def _prepared(self, rows: LogRows) -> tuple[list[int], Prepared, list[DeadLetter]]:
        """The valid events, ready to be written, and the others."""
        valid = list(range(len(rows.events)))
        try:
            return valid, self._ready(rows, valid), []
        except DataError:
            fault = rows.events.fault(self._definition)
        reasons = dict.fromkeys(valid, fault) if fault else self._reasons(rows, valid)
        letters = [_letter(rows, row, "invalid", str(reason)) for row, reason in reasons.items()]
        valid = [row for row in valid if row not in reasons]
        return valid, self._ready(rows, valid), letters

    def _ready(self, rows: LogRows, valid: Sequence[int]) -> Prepared:
        none = self._definition.event_columns.empty_table()
        table = rows.events.table(valid, self._definition) if valid else none
        return self._writer.prepare(table, rows.places.at(np.array(valid, np.int64)))

    def _reasons(self, rows: LogRows, among: Sequence[int]) -> dict[int, str]:
        """The invalid events of some, with the reasons: halves that are invalid are halved."""
        try:
            self._writer.check(rows.events.table(among, self._definition))
        except DataError as error:
            if len(among) == 1:
                return {among[0]: str(error)}
            half = len(among) // 2
            return self._reasons(rows, among[:half]) | self._reasons(rows, among[half:])
        return {}

    def _note_current(self, seconds: float) -> None:
        notes: dict[bytes, bytes] = {}
        for group in self._definition.groups:
            notes |= Notes(group, {}).named({FOLLOWED: str(seconds).encode()})
        self._store.write([], notes)


def _not_counted(rows: LogRows, valid: Sequence[int], prepared: Prepared) -> list[DeadLetter]:
    """The events that are late or ahead of the clock."""
    ahead = [
        _letter(rows, valid[row], "ahead", _AHEAD)
        for row in np.flatnonzero(prepared.ahead).tolist()
    ]
    return ahead + [
        _letter(rows, valid[row], "late", _LATE) for row in np.flatnonzero(prepared.late).tolist()
    ]


def _letter(rows: LogRows, row: int, kind: Kind, reason: str) -> DeadLetter:
    return DeadLetter(kind, reason, rows.source, int(rows.numbers[row]), rows.events.shown(row))
