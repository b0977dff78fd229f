"""The item table: the features of each item, by the item's id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.items.feature_table import FeatureTable

FILE = "items.parquet"
_POSITIVES = "positives of the train rows"  # no feature can have this name


@dataclass(frozen=True)
class ItemTable(FeatureTable):
    """One row per item: its id, its features, and how often it was a positive in training.

    Args:
        positives: Positive rows of each item in the train split `(items,)`.
    """

    positives: np.ndarray

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
