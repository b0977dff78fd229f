"""The item table: the features of each item, by the item's id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FILE = "items.parquet"
ABSENT = -1  # the row of an id that the table does not have
_POSITIVES = "positives of the train rows"  # no feature can have this name


@dataclass(frozen=True)
class ItemTable:
    """One row per item: its id, its features, and how often it was a positive in training.

    Args:
        key: Name of the feature and column of the id.
        table: The column `key`, without nulls or repeated values, and the features' columns.
        positives: Positive rows of each item in the train split `(items,)`.
    """

    key: str
    table: pa.Table
    positives: np.ndarray

    def __len__(self) -> int:
        """Number of items."""
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

    def join(self, table: pa.Table) -> pa.Table:
        """Rows with the features of their items, null where the id is unknown or missing.

        Columns of these names are replaced.
        """
        rows = self.rows(table[self.key])
        places = pa.array(rows, mask=rows == ABSENT)
        names = [name for name in table.column_names if name not in self.features]
        table = table.select(names)
        for name in self.features:
            table = table.append_column(name, _single(self.table[name]).take(places))
        return table

    def save(self, folder: Path) -> None:
        """Writes `items.parquet`."""
        counted = self.table.append_column(_POSITIVES, pa.array(self.positives, pa.int64()))
        pq.write_table(counted, folder / FILE, compression="zstd")

    @classmethod
    def load(cls, folder: Path) -> ItemTable | None:
        """Reads the table that `save` wrote; None if there is none."""
        if not (folder / FILE).exists():
            return None
        counted = pq.read_table(folder / FILE)
        table = counted.drop_columns([_POSITIVES])
        return cls(table.column_names[0], table, counted[_POSITIVES].to_numpy())


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
