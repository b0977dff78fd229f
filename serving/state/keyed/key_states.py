"""The states of some keys of a group: events are added, values are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

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
        if self.segments is not None:
            self.segments.forget(self.newest)
        for past in self.pasts:
            past.forget(self.newest, self.segments)

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

    @classmethod
    def joined(cls, group: Group, parts: Sequence[KeyStates]) -> KeyStates:
        """The states of the keys of all parts, one part after another.

        Args:
            group: The features.
            parts: States of the group. Their histories are changed.
        """
        states = cls(group, sum(map(len, parts)))
        if not parts:
            return states
        firsts = np.cumsum([0, *map(len, parts)]).tolist()
        states.versions = np.concatenate([part.versions for part in parts])
        states.newest = np.concatenate([part.newest for part in parts])
        for first, part in zip(firsts, parts, strict=False):
            states.offsets |= {first + key: of_key for key, of_key in part.offsets.items()}
            for place, past in enumerate(part.pasts):
                if group.lists_texts(place):
                    past.parts[:, 1] += len(states.texts)
            states.texts += part.texts
        for place, past in enumerate(states.pasts):
            of_parts = [part.pasts[place] for part in parts]
            past.key = _moved([of.key for of in of_parts], firsts)
            past.time = np.concatenate([of.time for of in of_parts])
            past.parts = np.concatenate([of.parts for of in of_parts])
            past.totals = np.concatenate([of.totals for of in of_parts])
        segments = [part.segments for part in parts if part.segments is not None]
        if states.segments is not None:
            states.segments.key = _moved([of.key for of in segments], firsts)
            states.segments.first = np.concatenate([of.first for of in segments])
            states.segments.until = np.concatenate([of.until for of in segments])
        return states


def _moved(keys: Sequence[np.ndarray], firsts: Sequence[int]) -> np.ndarray:
    """The numbers of keys of all parts, of which each begins at another number."""
    return np.concatenate([of + first for of, first in zip(keys, firsts, strict=False)])


def no_time(group: Group) -> int | float:
    """The time of a key without rows."""
    return -np.inf if group.has_float_times else np.iinfo(np.int64).min
