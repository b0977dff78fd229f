"""Labelled rows from outside of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from pipelines.common.errors import PipelineError, did_you_mean
from pipelines.storage.filesystem import Storage
from recsys_attn.schema import Schema


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
        """Checks that the rows have every column.

        Raises:
            PipelineError: A column is missing, or the source cannot be read.
        """
        known = self._dataset.schema.names
        missing = [name for name in self.columns(schema) if name not in known]
        if missing:
            raise PipelineError(
                f"{self.source}: the columns {missing} are missing: expected the raw features of "
                f"the export, its labels, and what --request and --group name."
                f"{did_you_mean(missing[0], known)}"
            )

    def columns(self, schema: Schema) -> list[str]:
        """The columns that are read."""
        names = [feature.name for feature in schema.features]
        names += [n for task in schema.tasks for n in (task.label_column, task.mask) if n]
        return list(dict.fromkeys([*names, *filter(None, (self.request, self.group))]))

    def batches(self, schema: Schema) -> Iterator[pa.Table]:
        """The rows, in order."""
        for batch in self._dataset.to_batches(columns=self.columns(schema)):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self._dataset.count_rows())

    @property
    def _dataset(self) -> ds.Dataset:
        Storage.of(self.source).check_exists("input")
        try:
            return ds.dataset(self.source, format="parquet")
        except (OSError, pa.ArrowInvalid) as error:
            raise PipelineError(f"{self.source} cannot be read as Parquet: {error}") from None
