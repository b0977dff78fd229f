"""Adds events to a store: each counts once, in whatever order and however often it arrives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.times import to_ticks
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.group import Group
from serving.state.definitions.static_features import Entity
from serving.state.keyed.group_rows import GroupRows
from serving.state.online.clock import Clock
from serving.state.online.event_rows import rows_of
from serving.state.online.group_batch import Events, GroupBatch, Places
from serving.state.online.notes import Notes
from serving.state.online.profiles import profile_rows, push_profiles
from serving.state.online.static_columns import with_static_columns
from serving.state.stores.store import Change, Store, StoreUnavailable

_ATTEMPTS = 50  # that other writers may undo


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
        self._loadings: dict[bytes, bytes] = {}  # by the fingerprint of a group

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
        return self.prepare_events(events, groups).write()

    def prepare_events(
        self, events: Sequence[Mapping[str, Any]], groups: Sequence[Group] | None = None
    ) -> Prepared:
        """Checks events by column name; as `push`, but nothing is written."""
        rows = rows_of(events, self._definition.event_columns, [self._definition.time])
        return self.prepare(rows, groups=groups)

    def push_profiles(self, of: Entity, profiles: Sequence[Mapping[str, Any]]) -> None:
        """Replaces the static features of some users or items.

        Args:
            of: Which.
            profiles: The id and all features of each by name, None where one is not known. Of two
                profiles of one id the later one remains.

        Raises:
            DataError: A column is absent, a value is invalid, or the state has no such features;
                then nothing is changed.
            StoreUnavailable: The store cannot be written.
        """
        static = self._definition.static_of(of)
        push_profiles(self._store, static, profile_rows(static, profiles))

    def add(
        self,
        rows: pa.Table,
        places: Places | None = None,
        groups: Sequence[Group] | None = None,
    ) -> Added:
        """Adds rows of a log; as `prepare` and `Prepared.write`."""
        return self.prepare(rows, places, groups).write()

    def prepare(
        self,
        rows: pa.Table,
        places: Places | None = None,
        groups: Sequence[Group] | None = None,
    ) -> Prepared:
        """Checks rows of a log, and finds those that will not be counted. Nothing is written.

        Args:
            rows: The columns `event_columns` of the definition, in its types.
            places: Their places in the log. None: they have none, so that only event ids tell
                whether a row arrives again.
            groups: The groups that receive them; None: all.

        Raises:
            DataError: A time, a label or a number is invalid.
            StoreUnavailable: The store cannot be read.
        """
        rows = with_static_columns(self._definition, rows, self._store.read)
        measured, time = self._measured(rows), self._times(rows)
        limit = self._clock.limit
        ahead = np.zeros(len(time), bool) if limit is None else time > limit
        event_id = self._definition.event_id
        late = self._definition.late_ticks
        events = None if event_id is None else Events.of(rows, time, event_id, late)
        batches = [
            GroupBatch(self._store, group, of_group, events, places, ~ahead)
            for group, of_group in zip(self._definition.groups, measured, strict=True)
            if groups is None or group in groups
        ]
        if places is not None:  # which belong to one load
            for batch in batches:
                batch.check_loading(self._loadings.setdefault(batch.group, batch.loading))
        return Prepared(self._store, batches, ahead, self._definition.expire_ids)

    def check(self, rows: pa.Table) -> None:
        """Checks rows of a log, without the store.

        Raises:
            DataError: A time, a label or a number is invalid.
        """
        self._times(rows)
        self._measured(with_static_columns(self._definition, rows, lambda of: [None] * len(of)))

    def reached(self, log: int) -> int:
        """The last place of a log that all groups have read; -1 if none."""
        places = [Notes.read(self._store, group).place(log) for group in self._definition.groups]
        return min(-1 if place is None else place for place in places)

    def _times(self, rows: pa.Table) -> np.ndarray:
        name = self._definition.time
        return to_ticks(rows[name], name, "time", "events")

    def _measured(self, rows: pa.Table) -> list[GroupRows]:
        return [GroupRows.of(group, rows, "events") for group in self._definition.groups]


class Prepared:
    """Rows that are checked, and not yet written.

    Args:
        store: The store.
        batches: The rows, for each group.
        ahead: Of the attribute.
        expire: Seconds after which a store may drop the id of an event; None: never.

    Attributes:
        ahead: `(rows,)`, whether each is of the future, and so will not be counted.
        late: `(rows,)`, whether each is too late, and so will not be counted.
    """

    def __init__(
        self, store: Store, batches: Sequence[GroupBatch], ahead: np.ndarray, expire: int | None
    ) -> None:
        self._store, self._batches, self._expire = store, batches, expire
        self.ahead = ahead
        self.late = self._any([batch.late for batch in batches])

    def write(self) -> Added:
        """Adds the rows.

        Raises:
            DataError: The state was loaded anew meanwhile.
            StoreUnavailable: The store cannot be written. Added again with the same places or
                event ids, rows count once.
        """
        for _ in range(_ATTEMPTS):
            if self._attempt():
                is_new = self._any([batch.new for batch in self._batches])
                return Added(self.late, self.ahead, ~(is_new | self.ahead | self.late))
        raise StoreUnavailable(
            f"The store was changed {_ATTEMPTS} times by other writers while this one read it. Let "
            "one writer follow each log."
        )

    def _any(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        of_rows = np.array(masks, bool).reshape(len(masks), len(self.ahead))
        return np.logical_or.reduce(of_rows, axis=0)

    def _attempt(self) -> bool:
        """Writes the pending cells of all groups; returns whether all were written."""
        cells = [batch.cells for batch in self._batches]
        blobs = iter(self._store.read([cell for of_batch in cells for cell in of_batch]))
        changes: list[list[Change]] = []
        notes: dict[bytes, bytes] = {}
        for batch, of_batch in zip(self._batches, cells, strict=True):
            before = [next(blobs) for _ in of_batch]
            changes.append(batch.changes(before) if before else [])
            notes |= batch.notes()
        written = self._store.write(list(itertools.chain(*changes)), notes, self._expire)
        made = iter(written)
        for batch, of_group in zip(self._batches, changes, strict=True):
            if of_group:
                batch.settle(np.array([next(made) for _ in of_group]))
        return all(written)
