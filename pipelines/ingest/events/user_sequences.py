"""The events of some users as rows: sorts them and makes the lists of each split."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.events.buckets import user_hashes
from pipelines.ingest.events.event_options import AGE, SESSION, EventOptions
from serving.state.columns.missing import with_nulls


class Sequences:
    """All events of some users, sorted by (hash of the user, user, time, order of the files).

    Every row is the first events of a user, so a split is a number of events for each user.

    Args:
        events: The events in the order of the files.
        options: The `[data]` table.
        second: Units of time of a second.

    Attributes:
        starts: The first event of each user `(users,)`.
        counts: The number of events of each user `(users,)`.
    """

    def __init__(self, events: pa.Table, options: EventOptions, second: int) -> None:
        self._options = options
        self._second = second
        users = _places(events[options.user])
        order = np.lexsort((events[options.time].to_numpy(), users))
        self._events = events.take(pa.array(order)).combine_chunks()
        self._time = self._events[options.time].to_numpy()
        self.counts = np.bincount(users)
        self.starts = np.cumsum(self.counts) - self.counts
        self._session = self._sessions(users[order]) if options.has_sessions else None

    def lengths(self, cuts: np.ndarray | None) -> np.ndarray:
        """Returns the number of events of each user's row by split; 0 without a row.

        Args:
            cuts: The first time of validation and of test; None to split by the last events.

        Returns:
            `(3, users)`; rows of valid and test end with the target.
        """
        every = self.counts
        if cuts is None:
            enough = every >= 3
            short = np.where(enough, every - 2, every)
            return np.stack([short, np.where(enough, every - 1, 0), np.where(enough, every, 0)])
        # The number of events before a cut is also the place of the first one from it on.
        before_valid, before_test = (
            np.add.reduceat(self._time < cut, self.starts, dtype=np.int64) for cut in cuts
        )
        train = np.where(before_valid >= 2, before_valid, 0)
        valid = np.where((before_valid >= 1) & (before_valid < before_test), before_valid + 1, 0)
        test = np.where((before_test >= 1) & (before_test < every), before_test + 1, 0)
        return np.stack([train, valid, test])

    def items(self, lengths: np.ndarray) -> pa.ChunkedArray:
        """The items of the first `lengths` `(users,)` events of each user, one after another."""
        return self._events[self._options.item].take(pa.array(_index(self.starts, lengths)))

    def rows(self, lengths: np.ndarray) -> pa.Table:
        """A row for each user with a length: lists of that many first events.

        Args:
            lengths: The number of events of each user `(users,)`; 0 for no row.
        """
        starts, lengths = self.starts[lengths > 0], lengths[lengths > 0]
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
        index = _index(starts, lengths)

        def listed(values: pa.Array | pa.ChunkedArray) -> pa.ListArray:
            flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
            return pa.ListArray.from_arrays(offsets, flat)

        options, taken = self._options, pa.array(index)
        moment = np.repeat(self._time[starts + lengths - 1], lengths)
        age = np.rint((moment - self._time[index]) / self._second).astype(np.int64)
        columns = {
            options.user: self._events[options.user].take(pa.array(starts)),
            options.item: listed(self._events[options.item].take(taken)),
            AGE: listed(pa.array(age)),
        }
        if self._session is not None:
            columns[SESSION] = listed(pa.array(self._session[index]))
        for name in options.columns:
            columns[name] = listed(self._events[name].take(taken))
        return pa.table(columns)

    def _sessions(self, users: np.ndarray) -> np.ndarray:
        """The number of each event's session within its user, by the session's first event."""
        options = self._options
        if options.session is None:
            gap = np.diff(self._time, prepend=self._time[:1]) / self._second
            new = gap >= (options.session_gap or 0)
            session = np.arange(len(users))
        else:
            values = with_nulls(self._events[options.session]).combine_chunks()
            codes = values.dictionary_encode(null_encoding="encode")
            pairs = users * len(codes.dictionary) + codes.indices.to_numpy()
            _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
            session = first[inverse]  # the first event of each event's session
            new = session == np.arange(len(users))
        new[self.starts] = False  # a user's first session has the number 0
        number = np.cumsum(new)
        return number[session] - number[self.starts][users]


def _places(users: pa.ChunkedArray) -> np.ndarray:
    """The place of each event's user among the distinct users, sorted by hash."""
    encoded = users.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary
    hashes = user_hashes(pa.chunked_array([distinct]))
    keyed = pa.table({"hash": hashes, "user": distinct})
    order = pc.sort_indices(keyed, sort_keys=[("hash", "ascending"), ("user", "ascending")])
    place = np.empty(len(distinct), np.int64)
    place[order.to_numpy()] = np.arange(len(distinct))
    return place[encoded.indices.to_numpy()]


def _index(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers from each start on, as many as its length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)
