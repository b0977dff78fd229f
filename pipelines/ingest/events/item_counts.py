"""Counts the events of each item; the memory follows the number of items."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.events.options import COUNT


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
        found = table.filter(pc.greater(table[COUNT], 0))
        return found.sort_by([(COUNT, "descending"), (self._item, "ascending")])

    def _sums(self, table: pa.Table) -> pa.Table:
        sums = table.group_by(self._item).aggregate([(COUNT, "sum")])
        return pa.table({self._item: sums[self._item], COUNT: sums[f"{COUNT}_sum"]})
