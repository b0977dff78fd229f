"""The order of the train rows: which of them come last, as the validation rows come after them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import datasketches
import numpy as np
import pyarrow as pa

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Source
from pipelines.storage.dataset import DataSplit
from pipelines.storage.hashing import hash_column, uniform
from serving.state.columns.times import to_ticks

_COMPRESSION = 2000  # of the sketch of the places: an error of rank of 0.1 %
_SEED = 1  # of the hash, another one than that of most splits


@dataclass(frozen=True)
class RowOrder:
    """The order of rows.

    Args:
        by: `"time"`: by the times of `column`. `"hash"`: by a hash of `column`, as a split by user
            has rows of equal value together. `"file"`: as the rows are stored.
        column: The column.
    """

    by: Literal["time", "hash", "file"] = "file"
    column: str | None = None

    @classmethod
    def of(cls, options: DataOptions, source: Source, columns: Collection[str]) -> RowOrder:
        """The order that the split has, else that of time.

        Args:
            options: The `[data]` table.
            source: Has columns of its own.
            columns: The columns of the written rows.
        """
        split = options.split
        time = source.time or options.time
        if split.by == "time":
            time = split.column or time
        together = split.column if split.by in ("user", "hash") else None
        if split.by == "user":
            together = together or source.user
        if together in columns:
            return cls("hash", together)
        return cls("time", time) if time in columns else cls()

    def places(self, table: pa.Table, first_row: int) -> np.ndarray:
        """A number for each row, larger for a later one; rows without a value come first."""
        if self.column is None:
            return np.arange(first_row, first_row + table.num_rows, dtype=np.float64)
        column = table[self.column]
        places = np.full(table.num_rows, -np.inf)
        known = column.is_valid().to_numpy()
        present = column.drop_null()
        if self.by == "time":
            places[known] = to_ticks(present, self.column, "data.split.column", "train")
        else:
            places[known] = uniform(hash_column(present, _SEED))
        return places

    @property
    def columns(self) -> list[str]:
        """The columns that `places` needs."""
        return [] if self.column is None else [self.column]

    def cut(self, split: DataSplit, share: float) -> float:
        """The place from which on rows are the last ones, a share of those of a split."""
        if self.column is None:
            return split.rows * (1 - share)
        digest = datasketches.tdigest_double(_COMPRESSION)
        for table in split.batches(self.columns):
            places = self.places(table, 0)
            digest.update(places[np.isfinite(places)])
        return np.inf if digest.is_empty() else float(digest.get_quantile(1 - share))
