"""The values of features over time at many moments, from a saved state and the events after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.times import to_ticks
from serving.state.definitions.group import Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.keyed.blobs import decode
from serving.state.keyed.codes import Codes
from serving.state.keyed.group_rows import GroupRows
from serving.state.keyed.history_lists import history_lists
from serving.state.keyed.key_states import KeyStates, no_time
from serving.state.keyed.keys import Key
from serving.state.online.clock import Clock
from serving.state.online.group_batch import Events
from serving.state.past.repeats import event_numbers, first_bucket
from serving.state.past.values import feature_values
from serving.state.saved import SavedState

_AT_ONCE = 65_536  # rows of a group that are added together

Span = tuple[int | float, int | float]


class Replay:
    """What `ingest` would give rows of some keys between two moments.

    It counts with the classes that `ingest` counts with, in one pass over the events and with no
    store. Of the events it keeps those of the keys, and of these what the span needs.

    Args:
        saved: The state after the last row of `ingest`.
        keys: Of each group of its definition, the numbers of the keys.
        span: The first and the last moment of which values are asked, in the unit of the times.
            The first is not before the newest row of the state.

    Attributes:
        rows: Number of events so far.
        late: Number of those that are too late to count.
    """

    def __init__(self, saved: SavedState, keys: Sequence[Mapping[Key, int]], span: Span) -> None:
        self._definition = saved.definition
        self._limit = Clock(saved.definition).limit
        self._last = span[1]
        self._groups = [
            _Group(saved, group, numbers, span[0])
            for group, numbers in zip(saved.definition.groups, keys, strict=True)
        ]
        newest = saved.newest
        self._newest = no_time(saved.definition.groups[0]) if newest is None else newest
        self.rows = self.late = 0

    def add(self, rows: pa.Table) -> None:
        """Adds events, in the order of the log.

        Args:
            rows: Valid rows of the definition's columns.
        """
        name, late = self._definition.time, self._definition.late_ticks
        time = to_ticks(rows[name], name, "time", "events")
        counts = np.ones(len(time), bool) if self._limit is None else time <= self._limit
        newest = np.maximum(
            np.maximum.accumulate(np.where(counts, time, self._newest)), self._newest
        )
        if late is not None:
            is_late = counts & (time < newest - late)
            self.late += int(is_late.sum())
            counts &= ~is_late
        if len(newest):
            self._newest = newest[-1].item()
        self.rows += len(time)
        chosen = rows.filter(pa.array(counts & (time < self._last)))
        for group in self._groups:
            group.add(chosen, self._newest)

    def values(self, group: int, place: int, key: np.ndarray, moment: np.ndarray) -> Any:
        """The value of a feature for each row: float32, or lists of a history.

        Args:
            group: The group among those of the definition.
            place: The feature among those of the group.
            key: `(rows,)`, numbers of keys; -1: missing.
            moment: `(rows,)`, in the unit of the times.
        """
        of, present = self._groups[group], key >= 0
        feature = of.group.features[place]
        if isinstance(feature, HistoryOptions):
            lists = iter(of.lists(place, key[present], moment[present]))
            return [next(lists) if is_present else [] for is_present in present]
        prior_place = self._definition.prior_of(feature)
        prior = None
        if prior_place is not None:
            prior = self._groups[-1].totals(prior_place, moment[present])
        states = of.finished
        begin = states.begin(key[present], moment[present])
        values = np.full(len(key), np.nan, np.float32)
        values[present] = feature_values(
            feature, states.pasts[place], key[present], moment[present], prior, begin
        )
        return values


class _Group:
    """The states of some keys of one group.

    Args:
        saved: The state to start from.
        group: The group.
        numbers: The numbers of the keys.
        first: The first moment of which values are asked.
    """

    def __init__(
        self, saved: SavedState, group: Group, numbers: Mapping[Key, int], first: int | float
    ) -> None:
        self.group = group
        self._numbers, self._first = numbers, first
        self._newest, self._event_id = first, saved.definition.event_id
        blobs: list[bytes | None] = [None] * len(numbers)
        for keys, of_keys in saved.blobs(group):
            for key, blob in zip(keys, of_keys, strict=True):
                if key in numbers:
                    blobs[numbers[key]] = blob
        self._states = decode(group, blobs)
        self._seen: dict[tuple[int, bytes], int] = {}
        for events, bits in saved.ids(group):
            for (key, event), of_event in zip(events, bits, strict=True):
                if key in numbers:
                    self._seen[numbers[key], event] = of_event
        self._waiting: list[pa.Table] = []

    @property
    def finished(self) -> KeyStates:
        """The states with all rows."""
        self._flush()
        return self._states

    def add(self, rows: pa.Table, newest: int | float) -> None:
        """Adds the rows of the keys.

        Args:
            rows: Rows of the log.
            newest: Time of the newest row so far.
        """
        self._newest = newest
        self._waiting.append(rows.filter(pa.array(self._keys(rows) >= 0)))
        if sum(table.num_rows for table in self._waiting) >= _AT_ONCE:
            self._flush()

    def totals(self, place: int, moment: np.ndarray) -> np.ndarray:
        """`(rows, parts)`: of the running priors, whose group has one key."""
        at, of_row = np.unique(moment, return_inverse=True)  # candidates share one
        past = self.finished.pasts[place]
        return past.totals_before(np.zeros(len(at), np.int64), at)[of_row]

    def lists(self, place: int, key: np.ndarray, moment: np.ndarray) -> list[list[Any]]:
        """The lists of a history."""
        states = self.finished
        ranges = states.pasts[place].ranges(key, moment, states.begin(key, moment))
        return history_lists(states, place, ranges, moment)

    def _keys(self, rows: pa.Table) -> np.ndarray:
        """The number of the key of each row; -1: it is not one of the keys."""
        codes = Codes(self.group.by)
        code = codes.encode(rows)
        return np.array([*(self._numbers.get(key, -1) for key in codes.keys), -1])[code]

    def _flush(self) -> None:
        """Adds the waiting rows, and drops what no moment of the span needs."""
        if not self._waiting:
            return
        rows = GroupRows.of(self.group, pa.concat_tables(self._waiting), "events")
        self._waiting = []
        key = self._keys(rows.table)
        if self._event_id is None:
            self._states.add(key, rows)
        else:
            self._add_new(key, rows, self._event_id)
            self._forget_ids()
        self._states.newest[:] = self._first
        self._states.forget()

    def _add_new(self, key: np.ndarray, rows: GroupRows, event_id: str) -> None:
        """Adds each event once."""
        events = Events.of(rows.table, rows.time, event_id, self.group.late_ticks)
        ids = list(zip(key.tolist(), events.keys, strict=True))
        known = np.flatnonzero(events.has_id).tolist()
        seen = np.zeros(len(key), np.int64)
        seen[known] = [self._seen.get(ids[row], 0) for row in known]
        numbers = np.where(events.has_id, event_numbers(key, events.numbers), -1)
        counted = self._states.add(key, rows, numbers, seen)
        for row in known:
            self._seen[ids[row]] = self._seen.get(ids[row], 0) | int(counted[row])

    def _forget_ids(self) -> None:
        """Drops the ids of events that would be too late if they came again."""
        late = self.group.late_ticks
        if late is not None:
            before = first_bucket(self._newest, late)
            self._seen = {of: bits for of, bits in self._seen.items() if of[1][:8] >= before}
