"""Writes the data folder: one Parquet file per split, as a stream."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.ingest.source import SPLITS
from pipelines.storage.request_rows import run_starts

ROW_GROUP = 16_384  # the feed shuffles whole groups: smaller ones are mixed better


class SplitWriter:
    """Writes `<out>/<split>/part-00000.parquet`; a context manager.

    A row group ends where a request ends, so that row groups can be read in any order. What is
    written must be whole requests.

    >>> with SplitWriter(out) as writer:
    ...     writer.write("train", table)
    """

    def __init__(self, out: Path, request: str | None = None) -> None:
        self._out = out
        self._request = request
        self._files: dict[str, pq.ParquetWriter] = {}
        self._held: dict[str, list[pa.Table]] = {split: [] for split in SPLITS}
        self.rows = dict.fromkeys(SPLITS, 0)
        self._schema: pa.Schema | None = None

    @property
    def columns(self) -> dict[str, str]:
        """Arrow types by column."""
        return {field.name: str(field.type) for field in self._schema or ()}

    def write(self, split: str, table: pa.Table) -> None:
        """Adds rows to a split; they are written in whole row groups."""
        if not table.num_rows:
            return
        table = table.replace_schema_metadata(None)
        self._schema = self._schema or table.schema
        if not table.schema.equals(self._schema):
            raise PipelineError(
                "The rows do not all have the same columns and types: expected "
                f"{_beyond(self._schema, table.schema)}, received "
                f"{_beyond(table.schema, self._schema)}."
            )
        self.rows[split] += table.num_rows
        held = self._held[split]
        held.append(table)
        if sum(part.num_rows for part in held) >= ROW_GROUP:
            together = pa.concat_tables(held)
            while together.num_rows >= ROW_GROUP:
                rows = self._row_group(together)
                self._flush(split, together.slice(0, rows))
                together = together.slice(rows)
            self._held[split] = [together]

    def _row_group(self, table: pa.Table) -> int:
        """About `ROW_GROUP` rows that end where a request ends."""
        if self._request is None:
            return min(ROW_GROUP, table.num_rows)
        ends = np.append(run_starts(table[self._request])[1:], table.num_rows)
        inside = ends[ends <= ROW_GROUP]
        return int(inside[-1] if len(inside) else ends[0])

    def _flush(self, split: str, table: pa.Table) -> None:
        try:
            if split not in self._files:
                folder = self._out / split
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / "part-00000.parquet"
                # With checksums a damaged page is found when it is read, not trained on.
                self._files[split] = pq.ParquetWriter(
                    path, table.schema, compression="zstd", write_page_checksum=True
                )
            self._files[split].write_table(table, row_group_size=table.num_rows)
        except OSError as error:
            raise PipelineError(f"Cannot write to {self._out / split}: {error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                for split, held in self._held.items():
                    if sum(part.num_rows for part in held):
                        self._flush(split, pa.concat_tables(held))
        finally:
            for split, file in self._files.items():
                self._close(split, file, failing=error is not None)

    def _close(self, split: str, file: pq.ParquetWriter, failing: bool) -> None:
        try:
            file.close()
        except OSError as error:
            if not failing:  # the first error is the one to show
                raise PipelineError(f"Cannot write to {self._out / split}: {error}.") from error


def _beyond(schema: pa.Schema, other: pa.Schema) -> str:
    """The columns of a schema that differ from another schema, in words."""
    fields = [f"{field.name}: {field.type}" for field in schema if field not in list(other)]
    return ", ".join(fields) or "nothing"
