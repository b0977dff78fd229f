"""The past of each key: what an aggregate keeps of earlier events, and its value at any row."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.ingest.aggregates.aggregate_options import AggregateOptions
from pipelines.ingest.aggregates.measures import PARTS, finish


class Past:
    """The events and sums that one aggregate keeps, by key.

    Old events are added up or forgotten, so that its size follows the keys and the events of the
    window, not the rows: `totals` for each key, and the kept events in the order of key and time.
    Events may be added in any order; values are exact for any moment from the newest event on.

    Args:
        aggregate: The definition.
        ticks: Units of a second of the times; None if they are numbers.
        keys: Number of keys; keys are 0 to `keys - 1`.
    """

    def __init__(self, aggregate: AggregateOptions, ticks: int | None, keys: int) -> None:
        self._aggregate = aggregate
        self._ticks = ticks
        self._window, self._delay = aggregate.durations(ticks)
        self._adds = aggregate.kind != "distinct"
        whole = self._window is None and aggregate.last is None
        self._folds, self._folds_values = whole and self._adds, whole and not self._adds
        width = len(PARTS[aggregate.kind])
        self.totals = np.zeros((keys if self._folds else 0, width), np.int64)
        self.key = np.zeros(0, np.int64)
        self.time = np.zeros(0, np.int64)
        self.parts = np.zeros((0, width), np.int64)

    def add(self, key: np.ndarray, time: np.ndarray, parts: np.ndarray) -> None:
        """Adds events; those of one time are in the order of their arrival."""
        if not len(key):
            return
        key, parts = np.concatenate([self.key, key]), np.concatenate([self.parts, parts])
        time = np.concatenate([self.time, time]) if len(self.time) else time
        order = np.lexsort((time, key))
        self._keep(order, key, time, parts)
        if self._adds and self._aggregate.last is None:  # events of one time are one
            first = np.flatnonzero(_changes(self.key) | _changes(self.time))
            parts = np.add.reduceat(self.parts, first)
            self._keep(first, self.key, self.time, self.parts)
            self.parts = parts

    def values(
        self, key: np.ndarray, moment: np.ndarray, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """The aggregate of the events before each moment; NaN where nothing is known.

        Args:
            key: `(rows,)`.
            moment: `(rows,)`, in the unit of the times.
            prior: For a rate, `totals_before` of all keys together.
        """
        if self._aggregate.kind == "since_last":
            start, end = self._ranges(key, moment)
            time = np.append(self.time, 0)[end - 1]
            return np.where(end > start, (moment - time) / (self._ticks or 1), np.nan)
        if self._aggregate.kind == "distinct":
            return self._distinct(*self._ranges(key, moment)).astype(np.float64)
        totals = self.totals_before(key, moment)
        return finish(self._aggregate, totals, totals if prior is None else prior)

    def totals_before(self, key: np.ndarray, moment: np.ndarray) -> np.ndarray:
        """`(rows, parts)`: sums of the parts of the events before each moment."""
        start, end = self._ranges(key, moment)
        sums = np.zeros((len(self.key) + 1, self.parts.shape[1]), np.int64)
        np.cumsum(self.parts, axis=0, out=sums[1:])
        totals = sums[end] - sums[start]
        return totals + self.totals[key] if self._folds else totals

    def forget(self, newest: Any) -> None:
        """Adds up or drops events that no moment from `newest` on needs one by one."""
        if not len(self.key):
            return
        needed = self._needed(newest)
        if self._folds:
            np.add.at(self.totals, self.key[~needed], self.parts[~needed])
        self._keep(np.flatnonzero(needed), self.key, self.time, self.parts)

    def grow(self, keys: int) -> None:
        """Makes room for new keys."""
        if self._folds and keys > len(self.totals):
            more = np.zeros((keys - len(self.totals), self.totals.shape[1]), np.int64)
            self.totals = np.concatenate([self.totals, more])

    def only(self, key: int) -> Past:
        """The past of one key, as key 0; empty for a negative key."""
        past = Past(self._aggregate, self._ticks, 1)
        if self._folds and 0 <= key < len(self.totals):
            past.totals = self.totals[[key]]
        span = slice(*np.searchsorted(self.key, [key, key + 1]))
        past.key, past.time, past.parts = self.key[span] * 0, self.time[span], self.parts[span]
        return past

    def _keep(
        self, index: np.ndarray, key: np.ndarray, time: np.ndarray, parts: np.ndarray
    ) -> None:
        self.key, self.time, self.parts = key[index], time[index], parts[index]

    def _ranges(self, key: np.ndarray, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last event, exclusive, for each row."""
        moment = moment - self._delay
        begins = [] if self._window is None else [moment - self._window]
        times = np.sort(np.concatenate([self.time, moment, *begins]))

        def place(keys: np.ndarray, at: np.ndarray) -> np.ndarray:
            return keys * len(times) + np.searchsorted(times, at)

        events = place(self.key, self.time)
        end = np.searchsorted(events, place(key, moment))
        begin = place(key, begins[0]) if begins else key * len(times)
        start = np.searchsorted(events, begin)
        if self._aggregate.last is not None:
            start = np.maximum(start, end - self._aggregate.last)
        return start, end

    def _distinct(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The number of different values in each range.

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

    def _next_of_value(self) -> np.ndarray:
        """The next event with the same key and value; the number of events if there is none."""
        order = np.lexsort((self.parts[:, 0], self.key))
        same = ~(_changes(self.key[order]) | _changes(self.parts[order, 0]))[1:]
        following = np.full(len(order), len(order))
        following[order[:-1][same]] = order[1:][same]
        return following

    def _needed(self, newest: Any) -> np.ndarray:
        """Whether a moment from `newest` on needs the event itself."""
        if self._folds_values:
            following = self._next_of_value()  # only the first event of a value counts
            needed = np.ones(len(self.key), bool)
            needed[following[following < len(needed)]] = False
            return needed
        horizon = newest - self._delay  # a row may still be too early for the events from here on
        if self._window is not None:
            return self.time >= horizon - self._window
        before = self._aggregate.last or int(self._aggregate.kind == "since_last")
        firsts = np.flatnonzero(_changes(self.key))
        lengths = np.diff(firsts, append=len(self.key))
        after = np.add.reduceat((self.time >= horizon).astype(np.int64), firsts)
        oldest = firsts + lengths - after - before
        return np.arange(len(self.key)) >= np.repeat(oldest, lengths)


def _changes(values: np.ndarray) -> np.ndarray:
    """Whether each value differs from the one before; the first does."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
