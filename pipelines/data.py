"""The data folder that ingest writes: one folder of Parquet files per split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.ingest.checks import require_column
from pipelines.ingest.requests import run_starts


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file: what is read at a time."""

    path: Path
    index: int
    first_row: int  # number of its first row in the file

    def read(self, columns: list[str]) -> pa.Table:
        """The columns of the row group; a damaged file is named."""
        with open_parquet(self.path) as file:
            for name in columns:  # Parquet's reader leaves out what is not there
                require_column(file.schema_arrow.names, name, "of the data", str(self.path))
            try:
                return file.read_row_group(self.index, columns=columns)
            except (pa.ArrowException, OSError) as error:
                raise PipelineError(
                    f"{self.path} cannot be read: {error}. It is damaged; make it again."
                ) from None


@dataclass(frozen=True)
class DataSplit:
    """The Parquet files of one split: a folder of them, or a single file."""

    folder: Path

    @property
    def files(self) -> list[Path]:
        if self.folder.is_file():
            return [self.folder]
        # Names that begin with a dot or an underscore are what other engines leave beside data.
        found = sorted(
            path
            for path in self.folder.rglob("*.parquet")
            if not any(part[0] in "._" for part in path.relative_to(self.folder).parts)
        )
        if not found:
            raise PipelineError(f"{self.folder} holds no Parquet file (*.parquet).")
        return found

    @property
    def row_groups(self) -> list[RowGroup]:
        groups = []
        for path in self.files:
            with open_parquet(path) as file:
                first_row = 0
                for index in range(file.num_row_groups):
                    rows = file.metadata.row_group(index).num_rows
                    if rows:  # some writers leave empty ones
                        groups.append(RowGroup(path, index, first_row))
                    first_row += rows
        return groups

    @property
    def rows(self) -> int:
        total = 0
        for path in self.files:
            with open_parquet(path) as file:
                total += file.metadata.num_rows
        return total

    @property
    def schema(self) -> pa.Schema:
        with open_parquet(self.files[0]) as file:
            return file.schema_arrow

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    def batches(self, columns: list[str]) -> Iterator[pa.Table]:
        """All row groups in order."""
        for group in self.row_groups:
            yield group.read(columns)


def open_parquet(path: Path) -> pq.ParquetFile:
    """An open Parquet file, or one sentence that says which file is damaged."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{path} is not a readable Parquet file: {error}.") from None


def request_starts(table: pa.Table, request: str | None) -> np.ndarray:
    """Row numbers at which requests begin, and the number of rows: `(requests + 1,)`.

    Rows of one request lie together; without a request column each row is one.
    """
    if request is None:
        return np.arange(table.num_rows + 1)
    return np.append(run_starts(table[request]), table.num_rows)
