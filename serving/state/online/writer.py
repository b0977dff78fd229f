"""Adds events to a store: each counts once, in whatever order and however often it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import is_missing
from serving.state.columns.times import to_ticks
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.group import Group
from serving.state.errors import DataError
from serving.state.keyed.blobs import decode, encode
from serving.state.keyed.codes import Codes
from serving.state.keyed.key_states import KeyStates, no_time
from serving.state.online.clock import Clock
from serving.state.online.event_rows import rows_of
from serving.state.online.notes import NEWEST, read_newest
from serving.state.online.user_profiles import push_users
from serving.state.past.measures import identities
from serving.state.past.repeats import event_keys, event_numbers
from serving.state.stores.store import Cell, Change, SeenId, Store, StoreUnavailable

_ATTEMPTS = 50  # that other writers may undo
_AHEAD = 300  # seconds that a clock may be ahead of this one


@dataclass(frozen=True)
class Place:
    """The place of rows in a log: a row that a state has is not added again.

    Attributes:
        log: Id of the log, or of one of its partitions.
        first: The place of the first row; the others follow it.
    """

    log: int
    first: int


@dataclass(frozen=True)
class Added:
    """What became of some rows.

    Attributes:
        late: `(rows,)`, whether each was too late, and so was not counted.
        ahead: `(rows,)`, whether each is of the future, and so was not counted.
        repeated: `(rows,)`, whether all features had counted each before.
    """

    late: np.ndarray
    ahead: np.ndarray
    repeated: np.ndarray


class StateWriter:
    """Adds events to a store.

    Args:
        store: The store.
        definition: The features.
        clock: The clock, against which rows of the future are found.
    """

    def __init__(
        self, store: Store, definition: StateDefinition, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._definition = definition
        self._clock = clock or Clock(definition)

    def push(
        self, events: Sequence[Mapping[str, Any]], groups: Sequence[Group] | None = None
    ) -> Added:
        """Adds events by column name.

        Args:
            events: Each has every column that a definition names, None where the log has null.
            groups: The groups that receive them; None: all.

        Raises:
            DataError: A column is absent, or a value is invalid; then nothing is added.
            StoreUnavailable: The store cannot be written; some groups may have the events.
        """
        rows = rows_of(events, self._definition.columns, [self._definition.time])
        return self.add(rows, groups=groups)

    def push_users(self, profiles: Sequence[Mapping[str, Any]]) -> None:
        """Replaces the static features of some users.

        Args:
            profiles: The id and all features of each user by name, None where one is not known.

        Raises:
            DataError: A column is absent, a value is invalid, or the state has no such features;
                then nothing is changed.
            StoreUnavailable: The store cannot be written.
        """
        if self._definition.users is None:
            raise DataError(
                "The state has no static features of users. Declare `data.users` in the "
                "experiment and make it again."
            )
        push_users(self._store, self._definition.users, profiles)

    def add(
        self,
        rows: pa.Table,
        place: Place | None = None,
        groups: Sequence[Group] | None = None,
    ) -> Added:
        """Adds rows of a log.

        Args:
            rows: The columns of the definition, in its types.
            place: Their place in the log. None: they have none, so that only event ids tell
                whether a row arrives again.
            groups: The groups that receive them; None: all.

        Raises:
            DataError: A time, a label or a number is invalid; then nothing is added.
            StoreUnavailable: The store cannot be written. Added again with the same place or
                event ids, rows count once.
        """
        name = self._definition.time
        time = to_ticks(rows[name], name, "time", "events")
        limit = self._clock.now(_AHEAD)
        ahead = np.zeros(len(time), bool) if limit is None else time > limit
        event = (
            None if self._definition.event_id is None else _Events.of(rows, time, self._definition)
        )
        late = np.zeros(len(time), bool)
        repeated = ~ahead
        for group in self._definition.groups if groups is None else groups:
            batch = _Batch(group, rows, time, event, place, ~ahead)
            was_late, was_new = batch.add_to(self._store)
            late |= was_late
            repeated &= ~was_new
        return Added(late, ahead, repeated & ~late)


@dataclass(frozen=True)
class _Events:
    """Events by their ids.

    Attributes:
        has_id: `(rows,)`, whether a row has an id.
        keys: Bucket, time and id of each event, as bytes.
        numbers: `(rows,)`, equal for equal times and ids.
        expire: Seconds after which a store may drop an id.
    """

    has_id: np.ndarray
    keys: list[bytes]
    numbers: np.ndarray
    expire: int | None

    @classmethod
    def of(cls, rows: pa.Table, time: np.ndarray, definition: StateDefinition) -> _Events:
        column = rows[definition.event_id]
        ids = identities(column)
        keys = event_keys(time, ids, definition.late_ticks)
        numbers = event_numbers(time.view(np.int64), *ids.T)
        return cls(~is_missing(column), keys, numbers, definition.expire_ids)


class _Batch:
    """Rows to add to one group."""

    def __init__(
        self,
        group: Group,
        rows: pa.Table,
        time: np.ndarray,
        events: _Events | None,
        place: Place | None,
        allowed: np.ndarray,
    ) -> None:
        self._group, self._rows, self._time = group, rows, time
        self._events, self._place, self._allowed = events, place, allowed
        codes = Codes(group.by)
        self._key = codes.encode(rows)
        self._cells = [Cell(group.fingerprint, key) for key in codes.keys]
        self._late = np.zeros(len(time), bool)
        self._new = np.zeros(len(time), bool)

    def add_to(self, store: Store) -> tuple[np.ndarray, np.ndarray]:
        """Adds the rows; returns which were too late, and which a feature had not counted."""
        pending = np.ones(len(self._cells), bool)
        for _ in range(_ATTEMPTS):
            cells = np.flatnonzero(pending)
            if not len(cells):
                return self._late, self._new
            pending[cells[self._attempt(store, cells)]] = False
        raise StoreUnavailable(
            f"The state of {self._group.by} was changed {_ATTEMPTS} times by other writers while "
            "this one read it. Let one writer follow each log."
        )

    def _attempt(self, store: Store, numbers: np.ndarray) -> np.ndarray:
        """Adds the rows of some cells; returns which of these were written."""
        cells = [self._cells[number] for number in numbers]
        of_cell = np.full(len(self._cells) + 1, -1)  # the last is that of rows without a key
        of_cell[numbers] = np.arange(len(numbers))
        key = of_cell[self._key]
        before = store.read(cells)
        newest = read_newest(store, self._group)
        states = decode(self._group, before)
        key = np.where(self._allowed & self._is_new(states, key), key, -1)
        late = self._is_late(newest) & (key >= 0)
        self._late |= late
        self._move_on(states, key)
        key = np.where(late, -1, key)
        bits, ids = self._add(store, states, key, cells)
        states.forget()
        states.versions += 1
        changes = [
            Change(cell, blob, after, ids.get(number, {}))
            for number, (cell, blob, after) in enumerate(
                zip(cells, before, encode(states), strict=True)
            )
        ]
        expire = None if self._events is None else self._events.expire
        made = np.array(store.write(changes, self._notes(newest), expire), bool)
        self._new |= (key >= 0) & made[key] & bits
        return made

    def _is_new(self, states: KeyStates, key: np.ndarray) -> np.ndarray:
        """Whether the cell of each row has not got it from the log."""
        if self._place is None:
            return np.ones(len(key), bool)
        reached = [states.offsets[key].get(self._place.log, -1) for key in range(len(states))]
        return self._place.first + np.arange(len(key)) > np.append(reached, -1)[key]

    def _move_on(self, states: KeyStates, key: np.ndarray) -> None:
        """Notes the place of the last row of each cell."""
        if self._place is None:
            return
        last = np.full(len(states), -1)
        present = key >= 0
        np.maximum.at(last, key[present], (self._place.first + np.arange(len(key)))[present])
        for number in np.flatnonzero(last >= 0).tolist():
            states.offsets[number][self._place.log] = int(last[number])

    def _is_late(self, newest: int | float) -> np.ndarray:
        """Whether each row is older than the newest before it by more than the group allows."""
        if self._group.late_ticks is None:
            return np.zeros(len(self._time), bool)
        times = np.where(self._allowed, self._time, no_time(self._group))
        newest_before = np.maximum(np.maximum.accumulate(times), newest)
        return self._time < newest_before - self._group.late_ticks

    def _notes(self, newest: int | float) -> dict[bytes, bytes]:
        times = self._time[self._allowed]
        if not len(times):
            return {}
        note = repr(max(times.max().item(), newest)).encode()
        return {self._group.fingerprint + NEWEST: note}

    def _add(
        self, store: Store, states: KeyStates, key: np.ndarray, cells: Sequence[Cell]
    ) -> tuple[np.ndarray, dict[int, dict[bytes, int]]]:
        """Adds rows; returns which a feature counted, and the ids of each cell with their bits."""
        if self._events is None:
            return states.add(key, self._rows, "events") > 0, {}
        events = self._events
        known = np.flatnonzero(events.has_id & (key >= 0))
        seen = np.zeros(len(key), np.int64)
        asked = [SeenId(cells[key[row]], events.keys[row]) for row in known]
        seen[known] = store.read_ids(asked)
        numbers = np.where(events.has_id, event_numbers(key, events.numbers), -1)
        counted = states.add(key, self._rows, "events", numbers, seen)
        ids: dict[int, dict[bytes, int]] = {}
        for row in known.tolist():
            of_cell = ids.setdefault(int(key[row]), {})
            bits = of_cell.get(events.keys[row], 0)
            of_cell[events.keys[row]] = bits | int(counted[row])
        return counted != seen, ids
