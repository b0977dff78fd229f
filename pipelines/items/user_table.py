"""The user table: static features of the context, by the user's id."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from pipelines.items.feature_table import FeatureTable

FILE = "users.parquet"


class UserTable(FeatureTable):
    """One row per user: the id and the features."""

    def save(self, folder: Path) -> None:
        """Writes `users.parquet`."""
        pq.write_table(self.table, folder / FILE, compression="zstd")

    @classmethod
    def load(cls, folder: Path) -> UserTable | None:
        """Reads the table that `save` wrote; None if there is none."""
        if not (folder / FILE).exists():
            return None
        table = pq.read_table(folder / FILE)
        return cls(table.column_names[0], table)
