"""Columns that `ingest` makes of earlier rows: aggregates and histories."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.engines.base import Engine
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.histories import HistoryColumns, check_histories
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.splitter import read_chunks
from pipelines.storage.filesystem import shown


@dataclasses.dataclass(frozen=True)
class MadeColumns:
    """Adds made columns to a source.

    Args:
        options: The `[data]` table.
        engine: Computes the aggregates.
        served: Names of those that the rows have: they stay as they are.
        folder: For temporary files; sources with added columns read them until the end.
    """

    options: DataOptions
    engine: Engine
    served: Collection[str]
    folder: Path

    def added(self, source: Source, state: LogState) -> Source:
        """The source with its made columns.

        Args:
            source: The rows.
            state: What the columns keep of the rows before; receives what they keep after them.
        """
        aggregates, histories = self.options.aggregates, self.options.histories
        if aggregates:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            source = with_aggregates(source, aggregates, self.engine, folder, state, self.served)
        return _with_histories(source, self.options, state, self.served) if histories else source


def _with_histories(
    source: Source, options: DataOptions, state: LogState, served: Collection[str]
) -> Source:
    """The source with its history columns; loads all rows."""
    loaded: list[pa.Table] = []
    parts: dict[str, list[SourceFile]] = {part: [] for part in source.parts}
    first = 0
    for part, files in source.parts.items():
        for file in files:
            alone = dataclasses.replace(source, parts={part: [file]})
            chunks = [table for _, _, table in read_chunks(alone) if table.num_rows]
            if not chunks:
                continue
            log = [chunk.drop_columns([*served]) for chunk in chunks]
            check_histories(pa.concat_tables(log), options.histories, file.where)
            last = first + sum(table.num_rows for table in chunks)

            def read(columns: Columns, first: int = first, last: int = last) -> Iterator[pa.Table]:
                return histories.chunks(first, last)

            parts[part].append(SourceFile(file.where, read))
            loaded += chunks
            first = last
    if not loaded:
        raise no_rows(options)
    histories = HistoryColumns(
        pa.concat_tables(loaded), options.histories, state, source.request, served
    )
    return dataclasses.replace(source, parts=parts)


def no_rows(options: DataOptions) -> PipelineError:
    """The error for a source without rows."""
    places = ", ".join(map(shown, options.places())) or options.source
    return PipelineError(f"{places}: holds no rows; expected a file with rows.")
