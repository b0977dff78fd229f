"""The past of each key: the events that a feature still needs, and sums of the older ones."""

from __future__ import annotations

import numpy as np

from serving.state.definitions.rule import Rule
from serving.state.past.segments import Segments


class Past:
    """The events and sums that one feature needs, by key.

    Old events are added up, moved to the start of their step, or dropped, so that the size follows
    the keys and what a window holds, not the rows. Events may be added in any order; values are
    exact for any moment from the newest event on.

    Args:
        rule: The events that count.
        keys: Number of keys; keys are 0 to `keys - 1`.

    Attributes:
        totals: `(keys, parts)`, sums of old events, if the rule has totals; else no rows.
        key: Of each event; `key`, `time` and `parts` are in the order of key, time and arrival.
        time: Of each event, in the unit of the column of times.
        parts: `(events, parts)`, as in `PARTS`.
    """

    def __init__(self, rule: Rule, keys: int) -> None:
        self.rule = rule
        self.totals = np.zeros((keys if rule.has_totals else 0, rule.width), np.int64)
        self.key = np.zeros(0, np.int64)
        self.time = np.zeros(0, np.int64)
        self.parts = np.zeros((0, rule.width), np.int64)
        self._following: np.ndarray | None = None  # of `_next_of_value`, until events change

    def of_keys(self, keys: int) -> Past:
        """A copy for more keys, the first of which are those of this one.

        Args:
            keys: Number of keys.
        """
        past = Past(self.rule, keys)
        past.totals[: len(self.totals)] = self.totals
        past.key, past.time, past.parts = self.key, self.time, self.parts
        return past

    def add(self, key: np.ndarray, time: np.ndarray, parts: np.ndarray) -> None:
        """Adds events; those of one time are in the order of their arrival."""
        if not len(key):
            return
        self.key, self.parts = np.concatenate([self.key, key]), np.concatenate([self.parts, parts])
        self.time = np.concatenate([self.time, time]) if len(self.time) else time
        self._sort()

    def forget(self, newest: np.ndarray | int | float, segments: Segments | None = None) -> None:
        """Adds up, moves or drops events that no moment from `newest` on needs one by one.

        Args:
            newest: A time for all keys, or one for each.
            segments: Of a rule that forgets, the times of all rows.
        """
        if not len(self.key):
            return
        rule = self.rule
        if rule.has_totals:
            old = self._is_old(newest)
            np.add.at(self.totals, self.key[old], self.parts[old])
            self._take(np.flatnonzero(~old))
            return
        self._move(self._is_old(newest), segments)
        old = self._is_old(newest)
        if rule.window is not None:
            of_key = newest[self.key] if isinstance(newest, np.ndarray) else newest
            needed = self.time >= self._start(of_key - rule.delay)
        elif not rule.whole:
            needed = self._last_before(old, rule.last or 1)
        else:
            needed = np.ones(len(self.key), bool)
        if segments is not None:
            needed &= segments.remember(self.key, self.time)
        if rule.kind == "distinct" and rule.last is None:
            needed &= ~self._is_repeated(old)
        self._take(np.flatnonzero(needed))

    def ranges(
        self, key: np.ndarray, moment: np.ndarray, begin: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last event, exclusive, that count for each row.

        Args:
            key: `(rows,)`.
            moment: `(rows,)`, in the unit of the times.
            begin: `(rows,)`, of a rule that forgets: the time from which the key has a past.
        """
        moment = moment - self.rule.delay
        starts: list[np.ndarray] = [] if begin is None else [begin]
        if self.rule.window is not None:
            starts.append(np.asarray(self._start(moment)))
        times = np.sort(np.concatenate([self.time, moment, *starts]))

        def place(keys: np.ndarray, at: np.ndarray) -> np.ndarray:
            return keys * len(times) + np.searchsorted(times, at)

        events = place(self.key, self.time)
        end = np.searchsorted(events, place(key, moment))
        firsts = [place(key, at) for at in starts] or [key * len(times)]
        start = np.searchsorted(events, np.stack(firsts).max(axis=0))
        if self.rule.last is not None:
            start = np.maximum(start, end - self.rule.last)
        return np.minimum(start, end), end

    def ranges_of_keys(
        self, moment: np.ndarray, begin: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`ranges` of one row for each key, which needs no search.

        Args:
            moment: `(keys,)`.
            begin: `(keys,)`.
        """
        moment = moment - self.rule.delay
        keys = len(moment)
        first = np.searchsorted(self.key, np.arange(keys))

        def place(at: np.ndarray) -> np.ndarray:
            earlier = self.key[self.time < at[self.key]]
            return first + np.bincount(earlier, minlength=keys)

        end = place(moment)
        start = first if begin is None else place(begin)
        if self.rule.window is not None:
            start = np.maximum(start, place(np.asarray(self._start(moment))))
        if self.rule.last is not None:
            start = np.maximum(start, end - self.rule.last)
        return np.minimum(start, end), end

    def totals_before(
        self, key: np.ndarray | None, moment: np.ndarray, begin: np.ndarray | None = None
    ) -> np.ndarray:
        """`(rows, parts)`: sums of the parts of the events that count for each row.

        Args:
            key: `(rows,)`; None: one row for each key.
            moment: `(rows,)`.
            begin: `(rows,)`, as in `ranges`.
        """
        if not len(self.key):
            totals = np.zeros((len(moment), self.rule.width), np.int64)
            return totals if not self.rule.has_totals else totals + self._totals(key)
        if key is None:
            start, end = self.ranges_of_keys(moment, begin)
        else:
            start, end = self.ranges(key, moment, begin)
        sums = np.zeros((len(self.key) + 1, self.rule.width), np.int64)
        np.cumsum(self.parts, axis=0, out=sums[1:])
        totals = sums[end] - sums[start]
        return totals + self._totals(key) if self.rule.has_totals else totals

    def distinct(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The number of different values in each range of `ranges`.

        In the order of the ranges, both of whose ends only grow, an event is the last one of its
        value from the first range that has it until one has the value's next event, or begins
        after it.
        """
        order = np.lexsort((start, end))
        start, end = start[order], end[order]
        event = np.arange(len(self.key))
        first = np.searchsorted(end, event, side="right")
        replaced = np.searchsorted(end, self._next_of_value(), side="right")
        stop = np.minimum(replaced, np.searchsorted(start, event, side="right"))
        counts = stop > first
        change = np.bincount(first[counts], minlength=len(order) + 1)
        change -= np.bincount(stop[counts], minlength=len(order) + 1)
        counts_of_ranges = np.empty(len(order), np.int64)
        counts_of_ranges[order] = np.cumsum(change)[: len(order)]
        return counts_of_ranges

    def _totals(self, key: np.ndarray | None) -> np.ndarray:
        return self.totals if key is None else self.totals[key]

    def _sort(self) -> None:
        self._take(np.lexsort((self.time, self.key)))
        if self.rule.adds and self.rule.last is None:  # events of one time are one
            first = np.flatnonzero(changes(self.key) | changes(self.time))
            if len(first) == len(self.key):
                return
            parts = np.add.reduceat(self.parts, first)
            self._take(first)
            self.parts = parts

    def _take(self, index: np.ndarray) -> None:
        self.key, self.time, self.parts = self.key[index], self.time[index], self.parts[index]
        self._following = None

    def _start(self, end: np.ndarray | int | float) -> np.ndarray | int | float:
        """The start of the windows that end at some times."""
        start = end - (self.rule.window or 0)
        step = self.rule.resolution
        return start if step is None else start // step * step

    def _is_old(self, newest: np.ndarray | int | float) -> np.ndarray:
        """Whether each event counts for every moment from `newest` on, unless a start is later."""
        of_key = newest[self.key] if isinstance(newest, np.ndarray) else newest
        return self.time < of_key - self.rule.delay

    def _move(self, old: np.ndarray, segments: Segments | None) -> None:
        """Gives old events that are only needed together one time."""
        if self.rule.resolution is not None:
            moved = self.time[old] // self.rule.resolution * self.rule.resolution
        elif segments is not None and self.rule.whole:
            moved = segments.first_of(self.key[old], self.time[old])
        else:
            return
        self.time = self.time.copy()
        self.time[old] = moved
        self._sort()

    def _last_before(self, old: np.ndarray, count: int) -> np.ndarray:
        """Whether each event is among the last old ones of its key, or is not old."""
        firsts = np.flatnonzero(changes(self.key))
        lengths = np.diff(firsts, append=len(self.key))
        recent = np.add.reduceat((~old).astype(np.int64), firsts)
        oldest = firsts + lengths - recent - count
        return np.arange(len(self.key)) >= np.repeat(oldest, lengths)

    def _is_repeated(self, old: np.ndarray) -> np.ndarray:
        """Whether another event of the same key and value counts wherever this one does."""
        following = self._next_of_value()
        has_next = following < len(following)
        repeated = np.zeros(len(following), bool)
        if self.rule.whole and not self.rule.forgets:
            repeated[following[has_next]] = True  # the first one counts longest
        else:
            repeated[has_next] = old[following[has_next]]  # windows only move forward
        return repeated

    def _next_of_value(self) -> np.ndarray:
        """The next event with the same key and value; the number of events if there is none."""
        if self._following is not None:
            return self._following
        parts = [part for part in self.parts.T if part.any()]  # numbers are one word
        order = np.lexsort((*parts, self.key))
        other = changes(self.key[order])
        for part in parts:
            other |= changes(part[order])
        following = np.full(len(order), len(order))
        following[order[:-1][~other[1:]]] = order[1:][~other[1:]]
        self._following = following
        return following


def changes(values: np.ndarray) -> np.ndarray:
    """Whether each value differs from the one before; the first does."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
