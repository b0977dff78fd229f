"""The times of a key's rows, as segments without a long gap, before which all is forgotten."""

from __future__ import annotations

from typing import Literal

import numpy as np


class Segments:
    """Spans of time in which no gap between two rows of a key is `gap` or longer.

    A late row may join two segments, so an older one is held for `late` more.

    Args:
        gap: The gap after which a key starts anew, in the unit of the times.
        late: How much older than the newest row a late one may be. None: any age.

    Attributes:
        key: Of each segment; segments are in the order of key and time.
        first: Time of its first row.
        until: Time of its last row.
    """

    def __init__(self, gap: int | float, late: int | float | None) -> None:
        self._gap, self._late = gap, late
        self.key = np.zeros(0, np.int64)
        self.first = np.zeros(0, np.int64)
        self.until = np.zeros(0, np.int64)

    def add(self, key: np.ndarray, first: np.ndarray, until: np.ndarray) -> None:
        """Adds segments, or rows as segments of one time, in any order."""
        if not len(key):
            return
        key = np.concatenate([self.key, key])
        first = np.concatenate([self.first, first]) if len(self.first) else first
        until = np.concatenate([self.until, until]) if len(self.until) else until
        order = np.lexsort((first, key))
        key, first, until = key[order], first[order], until[order]
        begins = np.flatnonzero(_begins(key, first, until, self._gap))
        self.key, self.first = key[begins], first[begins]
        self.until = np.maximum.reduceat(until, begins)

    def forget(self, newest: np.ndarray | int | float) -> None:
        """Drops segments that neither a moment from `newest` on nor a late row needs."""
        if self._late is None or not len(self.key):
            return
        of_key = newest[self.key] if isinstance(newest, np.ndarray) else newest
        is_last = np.append(self.key[1:] != self.key[:-1], True)
        needed = is_last | (self.until + self._gap + self._late > of_key)
        self.key, self.first = self.key[needed], self.first[needed]
        self.until = self.until[needed]

    def begin(self, key: np.ndarray, moment: np.ndarray) -> np.ndarray:
        """`(rows,)`: the time from which each key has a past; the moment if it has none."""
        place = self._place(key, moment, "left")
        present = place >= 0
        begin = moment.copy()
        of = place[present]
        alive = moment[present] - self.until[of] < self._gap
        begin[present] = np.where(alive, self.first[of], moment[present])
        return begin

    def first_of(self, key: np.ndarray, time: np.ndarray) -> np.ndarray:
        """`(events,)`: the first time of the segment of each event."""
        place = self._place(key, time, "right")
        return np.where(place < 0, time, np.append(self.first, 0)[place])

    def remember(self, key: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Whether the segment of each event is held."""
        return self._place(key, time, "right") >= 0

    def _place(
        self, key: np.ndarray, time: np.ndarray, side: Literal["left", "right"]
    ) -> np.ndarray:
        """The last segment of each key that begins before a time, or at it; -1: none does."""
        times = np.sort(np.concatenate([self.first, time]))
        begins = self.key * len(times) + np.searchsorted(times, self.first)
        place = key * len(times) + np.searchsorted(times, time)
        index = np.searchsorted(begins, place, side=side) - 1
        is_own = (index >= 0) & (np.append(self.key, -1)[index] == key)
        return np.where(is_own, index, -1)


def _begins(key: np.ndarray, first: np.ndarray, until: np.ndarray, gap: int | float) -> np.ndarray:
    """Whether each of some spans, by key and first time, begins a segment.

    Spans may overlap: the latest end so far of a key counts, taken on ranks so that one key does
    not reach into the next.
    """
    ends, rank = np.unique(until, return_inverse=True)
    reached = np.maximum.accumulate(key * len(ends) + rank)
    begins = np.ones(len(key), bool)
    same = key[1:] == key[:-1]
    begins[1:] = ~same | (first[1:] - ends[reached[:-1] % len(ends)] >= gap)
    return begins
