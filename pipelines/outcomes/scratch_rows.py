"""Rows on disk, written in one order and read in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa


class ScratchRows:
    """Writes tables into a file; a context manager, whose end makes the file readable.

    Args:
        path: The file.
        schema: The columns.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._starts = [0]

    def add(self, table: pa.Table) -> None:
        """Adds rows."""
        for batch in table.combine_chunks().to_batches():
            self._writer.write_batch(batch)
            self._starts.append(self._starts[-1] + batch.num_rows)

    def read(self, rows: np.ndarray, size: int) -> Iterator[pa.Table]:
        """Rows by their numbers, in tables of `size` rows, for which only these are in memory."""
        starts = np.array(self._starts)
        with pa.memory_map(str(self._path)) as file, pa.ipc.open_file(file) as reader:
            for first in range(0, len(rows), size):
                chosen = rows[first : first + size]
                batches = np.searchsorted(starts, chosen, side="right") - 1
                used, place = np.unique(batches, return_inverse=True)
                table = pa.Table.from_batches([reader.get_batch(number) for number in used])
                lengths = (starts[1:] - starts[:-1])[used]
                begins = np.cumsum(lengths) - lengths
                yield table.take(pa.array(begins[place] + chosen - starts[batches]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._file.close()
