"""Rows of a log on their way into one group of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import is_missing
from serving.state.definitions.group import Group
from serving.state.errors import DataError
from serving.state.keyed.blobs import decode, encode
from serving.state.keyed.codes import Codes
from serving.state.keyed.group_rows import GroupRows
from serving.state.keyed.key_states import KeyStates, no_time
from serving.state.online.notes import Notes
from serving.state.past.measures import identities
from serving.state.past.repeats import event_keys, event_numbers
from serving.state.stores.store import Cell, Change, SeenId, Store

_SEEN = 1 << 62  # of an event that no feature has counted, too


@dataclass(frozen=True)
class Places:
    """The places of rows in a log: a row that a state has is not added again.

    Attributes:
        log: Id of the log, or of one of its partitions.
        rows: `(rows,)`, the place of each row; they grow.
        last: The last place that was read, which may be that of a row that is not among them.
        known_by: Fingerprints of groups that have these rows from elsewhere, such as `ingest`.
    """

    log: int
    rows: np.ndarray
    last: int
    known_by: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, log: int, first: int, count: int) -> Places:
        """The places of rows that follow each other."""
        return cls(log, np.arange(first, first + count), first + count - 1)

    def at(self, rows: np.ndarray) -> Places:
        """The places of some of the rows; the others were read too."""
        return replace(self, rows=self.rows[rows])


@dataclass(frozen=True)
class Events:
    """Events by their ids.

    Attributes:
        has_id: `(rows,)`, whether a row has an id.
        keys: Bucket, time and id of each event, as bytes.
        numbers: `(rows,)`, equal for equal times and ids.
    """

    has_id: np.ndarray
    keys: list[bytes]
    numbers: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table, time: np.ndarray, column: str, late: int | float | None) -> Events:
        """The events of a table.

        Args:
            rows: The rows.
            time: `(rows,)`.
            column: The column of the ids.
            late: The age up to which an event may arrive again, in the unit of the times.
        """
        ids = identities(rows[column])
        numbers = event_numbers(time.view(np.int64), *ids.T)
        return cls(~is_missing(rows[column]), event_keys(time, ids, late), numbers)


class GroupBatch:
    """Rows to add to one group.

    Args:
        store: The store; nothing is written here.
        group: The group.
        rows: The rows.
        events: Their ids, if events have such.
        places: Their places in a log; None: they have none.
        allowed: `(rows,)`, whether each row may be added.

    Attributes:
        late: `(rows,)`, whether each row is too late.
        new: `(rows,)`, whether a row was written that the state did not have.
    """

    def __init__(
        self,
        store: Store,
        group: Group,
        rows: GroupRows,
        events: Events | None,
        places: Places | None,
        allowed: np.ndarray,
    ) -> None:
        self._store, self._group, self._rows = store, group, rows
        self._events, self._places = events, places
        self._notes = Notes.read(store, group)
        if places is not None:
            reached = self._notes.place(places.log)
            unread = places.rows > (-1 if reached is None else reached)
            allowed = allowed & unread & (group.fingerprint not in places.known_by)
        self._allowed = allowed
        self.late = self._is_late()
        self.new = np.zeros(len(allowed), bool)
        codes = Codes(group.by)
        self._key = np.where(allowed, codes.encode(rows.table), -1)
        self._cells = [Cell(group.fingerprint, key) for key in codes.keys]
        self._pending = np.unique(self._key[self._key >= 0])  # numbers of cells
        self._written = self._key, self.new  # of the last changes

    @property
    def group(self) -> bytes:
        """The fingerprint of the group."""
        return self._group.fingerprint

    @property
    def loading(self) -> bytes:
        """The load to which the places of the store belong."""
        return self._notes.loading

    def check_loading(self, loading: bytes) -> None:
        """Checks that the places of the store belong to the load of these rows.

        Raises:
            DataError: The state was loaded anew.
        """
        if loading != self.loading:
            raise DataError(
                "The state was loaded anew while events were added. Start the command again: it "
                "goes on from the state that was loaded."
            )

    @property
    def cells(self) -> list[Cell]:
        """The cells that are not written yet."""
        return [self._cells[number] for number in self._pending]

    def changes(self, before: Sequence[bytes | None]) -> list[Change]:
        """The changes of `cells`, whose blobs are `before`; one that has all its rows has none."""
        cells = self.cells
        of_cell = np.full(len(self._cells) + 1, -1)  # the last is that of rows without a key
        of_cell[self._pending] = np.arange(len(cells))
        states = decode(self._group, before)
        key = of_cell[self._key]
        key = np.where(self._is_new(states, key), key, -1)
        touched = np.unique(key[key >= 0])  # others have all their rows
        self._move_on(states, key)
        key = np.where(self.late, -1, key)
        new, ids = self._add(states, key, cells)
        states.forget()
        states.versions += 1
        of_change = np.full(len(cells) + 1, -1)
        of_change[touched] = np.arange(len(touched))
        self._written = of_change[key], new
        self._pending = self._pending[touched]
        after = encode(states)
        return [
            Change(cells[number], before[number], after[number], ids.get(number, {}))
            for number in touched.tolist()
        ]

    def settle(self, made: np.ndarray) -> None:
        """Takes in which of the last changes were made; the others are pending."""
        key, new = self._written
        self.new |= new & np.append(made, False)[key]
        self._pending = self._pending[~made]

    def notes(self) -> dict[bytes, bytes]:
        """The notes to write with the changes.

        Raises:
            DataError: The state was loaded anew meanwhile.
        """
        notes = Notes.read(self._store, self._group)  # another writer may have moved it on
        self.check_loading(notes.loading)
        noted: dict[bytes, bytes] = {}
        times = self._rows.time[self._allowed]
        if len(times):
            noted |= notes.at_newest(max(times.max().item(), notes.newest))
        if self._places is not None:
            reached = notes.place(self._places.log)
            last = self._places.last
            noted |= notes.at_place(
                self._places.log, last if reached is None else max(last, reached)
            )
        return noted

    def _is_new(self, states: KeyStates, key: np.ndarray) -> np.ndarray:
        """Whether the cell of each row has not got it from the log."""
        if self._places is None:
            return np.ones(len(key), bool)
        log = self._places.log
        reached = [states.offsets[key].get(log, -1) for key in range(len(states))]
        return self._places.rows > np.append(reached, -1)[key]

    def _move_on(self, states: KeyStates, key: np.ndarray) -> None:
        """Notes the place of the last row of each cell."""
        if self._places is None:
            return
        last = np.full(len(states), -1)
        present = key >= 0
        np.maximum.at(last, key[present], self._places.rows[present])
        for number in np.flatnonzero(last >= 0).tolist():
            states.offsets[number][self._places.log] = int(last[number])

    def _is_late(self) -> np.ndarray:
        """Whether each row is older than the newest before it by more than the group allows."""
        time, limit = self._rows.time, self._group.late_ticks
        if limit is None:
            return np.zeros(len(time), bool)
        times = np.where(self._allowed, time, no_time(self._group))
        newest = np.maximum(np.maximum.accumulate(times), self._notes.newest)
        return self._allowed & (time < newest - limit)

    def _add(
        self, states: KeyStates, key: np.ndarray, cells: Sequence[Cell]
    ) -> tuple[np.ndarray, dict[int, dict[bytes, int]]]:
        """Adds rows; returns which had not been added, and the ids of each cell with their bits."""
        if self._events is None:
            states.add(key, self._rows)
            return np.ones(len(key), bool), {}
        events = self._events
        known = np.flatnonzero(events.has_id & (key >= 0)).tolist()
        seen = np.zeros(len(key), np.int64)
        asked = [SeenId(cells[key[row]], events.keys[row]) for row in known]
        seen[known] = self._store.read_ids(asked)
        numbers = np.where(events.has_id, event_numbers(key, events.numbers), -1)
        bits = seen & ~_SEEN
        counted = states.add(key, self._rows, numbers, bits)
        ids: dict[int, dict[bytes, int]] = {}
        for row in known:
            of_cell = ids.setdefault(int(key[row]), {})
            of_event = of_cell.get(events.keys[row], _SEEN)
            of_cell[events.keys[row]] = of_event | int(counted[row])
        return (counted != bits) | (seen == 0), ids
