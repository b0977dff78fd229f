"""The states of some keys of a group: events are added, values are read."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa

from serving.state.definitions.group import Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.keyed.group_rows import GroupRows
from serving.state.keyed.listed_values import to_words
from serving.state.past.past import Past
from serving.state.past.repeats import is_first
from serving.state.past.segments import Segments


class KeyStates:
    """The states of keys 0 to `keys - 1` of one group.

    Args:
        group: The features.
        keys: Number of keys.

    Attributes:
        versions: `(keys,)`, how many times each state was written.
        newest: `(keys,)`, time of the newest row of each key.
        offsets: By key and id of the log, the place in it of the last row that was added.
        segments: The times of the rows, if keys are forgotten.
        pasts: Of each feature.
        texts: Values of histories; those of one event are at the number in its parts.
    """

    def __init__(self, group: Group, keys: int) -> None:
        self.group = group
        self.versions = np.zeros(keys, np.int64)
        self.newest = np.full(keys, no_time(group), np.float64 if group.has_float_times else "i8")
        self.offsets = defaultdict[int, dict[int, int]](dict)
        self.segments = None if group.gap is None else Segments(group.gap, group.late_ticks)
        self.pasts = [Past(rule, keys) for rule in group.rules]
        self.texts: list[str] = []

    def __len__(self) -> int:
        return len(self.newest)

    def add(
        self,
        key: np.ndarray,
        rows: GroupRows,
        events: np.ndarray | None = None,
        seen: np.ndarray | None = None,
    ) -> np.ndarray:
        """Adds rows of the log; returns `(rows,)`, as bits, which features have counted each event.

        Args:
            key: `(rows,)`, the number of each row's key; negative: it has none.
            rows: The rows.
            events: `(rows,)`, equal numbers for equal events; negative: of no other row.
            seen: `(rows,)`, as bits, the features that have counted each event before.
        """
        time, present = rows.time, key >= 0
        counted = np.zeros(len(key), np.int64) if seen is None else seen.copy()
        np.maximum.at(self.newest, key[present], time[present])
        if self.segments is not None:
            self.segments.add(key[present], time[present], time[present])
        for place, (is_event, parts) in enumerate(rows.measures):
            feature = self.group.features[place]
            use = is_event & present & (counted >> place & 1 == 0)
            if events is not None:
                use &= is_first(events, use)
            counted |= use.astype(np.int64) << place
            of_events = parts[use]
            if isinstance(feature, HistoryOptions):
                values = rows.table[feature.of].filter(pa.array(use))
                of_events[:, 1] = to_words(values, self.texts)
            self.pasts[place].add(key[use], time[use], of_events)
        return counted

    def forget(self) -> None:
        """Adds up or drops what no moment from the newest row on needs."""
        for past in self.pasts:
            past.forget(self.newest, self.segments)
        if self.segments is not None:
            self.segments.forget(self.newest)

    def begin(self, key: np.ndarray, moment: np.ndarray) -> np.ndarray | None:
        """`(rows,)`: the time from which each key has a past, if keys are forgotten."""
        return None if self.segments is None else self.segments.begin(key, moment)

    def part(self, first: int, stop: int) -> KeyStates:
        """The states of keys `first` to `stop - 1`."""
        part = KeyStates(self.group, stop - first)
        part.versions, part.newest = self.versions[first:stop], self.newest[first:stop]
        part.texts = self.texts
        for key in self.offsets.keys() & range(first, stop):
            part.offsets[key - first] = self.offsets[key]
        for own, past in zip(part.pasts, self.pasts, strict=True):
            span = slice(*np.searchsorted(past.key, [first, stop]))
            own.key, own.time, own.parts = past.key[span] - first, past.time[span], past.parts[span]
            if past.rule.has_totals:
                own.totals = past.totals[first:stop]
        if self.segments is not None and part.segments is not None:
            span = slice(*np.searchsorted(self.segments.key, [first, stop]))
            part.segments.key = self.segments.key[span] - first
            part.segments.first = self.segments.first[span]
            part.segments.until = self.segments.until[span]
        return part


def no_time(group: Group) -> int | float:
    """The time of a key without rows."""
    return -np.inf if group.has_float_times else np.iinfo(np.int64).min
