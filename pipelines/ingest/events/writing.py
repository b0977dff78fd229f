"""Writes the sequences of all users by split, and counts them and their items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.events.buckets import Buckets
from pipelines.ingest.events.event_options import COUNT, EventOptions
from pipelines.ingest.events.user_sequences import Sequences
from pipelines.ingest.source import SPLITS
from pipelines.ingest.writer import SplitWriter


class ItemCounts:
    """A count by item, added up over any number of events.

    Args:
        item: The column of the items.
    """

    def __init__(self, item: str) -> None:
        self._item = item
        self._parts: list[pa.Table] = []

    def add(self, items: pa.ChunkedArray, counts: np.ndarray) -> None:
        """Adds events, each with its part of the count of its item."""
        self._parts.append(self._sums(pa.table({self._item: items, COUNT: counts})))
        # Adding up only once the parts outgrow the sums costs each event a fixed time.
        if sum(part.num_rows for part in self._parts[1:]) >= self._parts[0].num_rows:
            self._parts = [self.table()]

    def table(self) -> pa.Table:
        """The items and their counts, in any order."""
        return self._sums(pa.concat_tables(self._parts))

    def sorted(self) -> pa.Table:
        """The items with a count, the most frequent first, then by item."""
        table = self.table()
        positive = table.filter(pc.greater(table[COUNT], 0))
        return positive.sort_by([(COUNT, "descending"), (self._item, "ascending")])

    def _sums(self, table: pa.Table) -> pa.Table:
        sums = table.group_by(self._item).aggregate([(COUNT, "sum")])
        return pa.table({self._item: sums[self._item], COUNT: sums[f"{COUNT}_sum"]})


@dataclass
class Written:
    """The written rows: their items, counts and types.

    Attributes:
        items: The items, each with its count in the train rows.
        rows: Rows by split.
        columns: Types by column.
        events: Events of the users with rows.
        users: Users with rows.
        left_out: Users without rows, and their events, by reason.
    """

    items: ItemCounts
    rows: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    events: int = 0
    users: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def leave_out(self, why: str, counts: np.ndarray) -> None:
        """Counts users, given their numbers of events."""
        self.left_out[f"users_{why}"] += len(counts)
        self.left_out[f"events_of_users_{why}"] += int(counts.sum())


def write_sequences(
    buckets: Buckets,
    out: Path,
    options: EventOptions,
    second: int,
    bounds: np.ndarray | None,
    advance: Callable[[int], None],
) -> Written:
    """Writes the rows of all users.

    Args:
        buckets: The events.
        out: Folder of the splits.
        options: The `[data]` table.
        second: Units of time of a second.
        bounds: The first time of validation and of test; None to split by the last events.
        advance: Called with numbers of events that are done.
    """
    written = Written(ItemCounts(options.item))
    with SplitWriter(out) as writer:
        for events in buckets.tables():
            users = Sequences(events, options, second)
            lengths = users.lengths(bounds)
            few = users.counts < options.min_user_events
            without = ~few & ~lengths.any(axis=0)
            written.leave_out("with_few_events", users.counts[few])
            written.leave_out("without_row", users.counts[without])
            lengths[:, few] = 0
            for split, length in zip(SPLITS, lengths, strict=True):
                writer.write(split, users.rows(length))
            counts = np.where(few | without, 0, users.counts)
            if counts.any():
                written.items.add(users.items(counts), _in_train(counts, lengths[0]))
            written.users += int(np.count_nonzero(counts))
            written.events += int(counts.sum())
            advance(events.num_rows)
    written.rows, written.columns = writer.rows, writer.columns
    return written


def _in_train(counts: np.ndarray, train: np.ndarray) -> np.ndarray:
    """1 for each event of a train row, 0 for the user's later ones."""
    parts = np.stack([train, counts - train], axis=1).ravel()
    return np.repeat(np.tile([1, 0], len(counts)), parts)
