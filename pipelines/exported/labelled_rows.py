"""Labelled rows from outside of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.context import check_context
from pipelines.ingest.table_checks import check_table
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Storage
from pipelines.storage.request_rows import check_requests
from recsys_attn.schema import Schema
from serving.state.errors import require_column


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of a Parquet file or a folder of them.

    Args:
        source: The file or the folder.
        request: Column of the request id, whose rows follow each other; None: every row is a
            request.
        group: Column whose rows depend on each other, such as the user; None: the request.
    """

    source: Path
    request: str | None
    group: str | None

    def check(self, schema: Schema) -> None:
        """Checks that the rows have every column, and those of a request follow each other.

        Raises:
            PipelineError: A column is missing, the rows of a request are scattered, or the source
                cannot be read.
        """
        split = self._split(schema)
        known = split.columns
        for option, name in (("--request", self.request), ("--group", self.group)):
            if name is not None:
                require_column(known, name, option, str(self.source))
        missing = [name for name in self.columns(schema) if name not in known]
        if missing:
            raise PipelineError(
                f"{self.source}: the columns {missing} are missing: expected the features of the "
                "export and its labels. Those that `ingest` makes of earlier rows "
                "(`data.histories`, `data.aggregates`) are in `data/test` of the run folder, not "
                f"in the log. Columns: {', '.join(known)}."
            )
        if self.request is not None:
            check_requests(split, self.request)

    def columns(self, schema: Schema) -> list[str]:
        """The columns that are read."""
        names = [feature.name for feature in schema.features]
        names += [n for task in schema.tasks for n in (task.label_column, task.mask) if n]
        return list(dict.fromkeys([*names, *filter(None, (self.request, self.group))]))

    def batches(self, schema: Schema) -> Iterator[pa.Table]:
        """The rows, in order, as `ingest` checks them.

        Raises:
            PipelineError: A value is of another type, or a context changes within a request.
        """
        split = self._split(schema)
        footers = split.footers
        for number, table in enumerate(split.batches(self.columns(schema))):
            where, first_row = footers.file_name(footers.file[number]), footers.first_row[number]
            checked = check_table(table, schema, where, first_row=int(first_row))
            if self.request is not None:
                check_context(checked, schema, self.request, where, int(first_row))
            yield checked

    def count(self, schema: Schema) -> int:
        """The number of rows."""
        return self._split(schema).rows

    def _split(self, schema: Schema) -> DataSplit:
        Storage.of(self.source).check_exists("input")
        return DataSplit(self.source, features=schema)
