"""A table of features by an id, and its join to rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ABSENT = -1  # the row of an id that the table does not have


@dataclass(frozen=True)
class FeatureTable:
    """One row per id, with its features.

    Args:
        key: Name of the column of the id.
        table: The column `key`, without nulls or repeated values, and the features' columns.
    """

    key: str
    table: pa.Table

    def __len__(self) -> int:
        """Number of ids."""
        return int(self.table.num_rows)

    @property
    def keys(self) -> pa.Array:
        """The ids."""
        return _single(self.table[self.key])

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that the table has besides the id."""
        return tuple(name for name in self.table.column_names if name != self.key)

    def rows(self, values: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """The table's row of each id, int32; `ABSENT` for unknown and missing ids."""
        values = _single(values)
        if pa.types.is_dictionary(values.type):
            rows = np.append(self.rows(values.dictionary), np.int32(ABSENT))
            return rows.take(values.indices.fill_null(len(rows) - 1).to_numpy())
        index = pc.index_in(values.cast(self.keys.type), value_set=self.keys)
        return index.fill_null(ABSENT).to_numpy().astype("int32")

    def join(self, table: pa.Table, kept: Collection[str] = ()) -> pa.Table:
        """Rows with the features of their ids, null where the id is unknown or missing.

        Args:
            table: Rows with the column of the id. Columns of the features' names are replaced.
            kept: Those that are not.
        """
        added = [name for name in self.features if name not in kept]
        if not added:
            return table
        rows = self.rows(table[self.key])
        places = pa.array(rows, mask=rows == ABSENT)
        table = table.select([name for name in table.column_names if name not in added])
        for name in added:
            table = table.append_column(name, _single(self.table[name]).take(places))
        return table


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
