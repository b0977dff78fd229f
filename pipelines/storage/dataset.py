"""Reads the splits that ingest writes: a folder of Parquet files each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import require_column
from pipelines.storage.filesystem import Storage, Where
from pipelines.storage.footers import Footers

READ_ROWS = 65_536
_OPEN_FILES = 8


@dataclass(frozen=True)
class DataSplit:
    """The Parquet files of one split: a folder of them, or a single file.

    Args:
        folder: A local path, a URI, or a path inside `filesystem`.
        filesystem: The filesystem; None: the local one, or the URI's.
    """

    folder: Where
    filesystem: fs.FileSystem | None = None

    @cached_property
    def footers(self) -> Footers:
        """The footers of the files, read once."""
        return Footers.read(Storage.of(self.folder, self.filesystem))

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        return Path(self.footers.storage.name).name

    @property
    def files(self) -> list[str]:
        return self.footers.files

    @property
    def rows(self) -> int:
        return int(self.footers.rows.sum())

    @property
    def schema(self) -> pa.Schema:
        return self.footers.schemas[0]

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    def batches(self, columns: list[str]) -> Iterator[pa.Table]:
        """The row groups in order."""
        with Reader(self.footers, columns) as reader:
            for number in range(len(self.footers)):
                yield reader.read([number])


class RowGroups(NamedTuple):
    """Consecutive row groups of a file."""

    table: pa.Table
    rows: np.ndarray  # of each row group


class Reader:
    """Reads row groups with few open files. Not thread-safe.

    Args:
        footers: The footers of the split.
        columns: Columns to read.
        encoded: String columns, or lists of strings, to read as dictionaries.
    """

    def __init__(self, footers: Footers, columns: list[str], encoded: Iterable[str] = ()) -> None:
        self._footers = footers
        self._columns = columns
        self._encoded = frozenset(encoded)
        self._open: OrderedDict[int, tuple[pa.NativeFile, pq.ParquetFile]] = OrderedDict()

    def read(self, numbers: Iterable[int]) -> pa.Table:
        """Some row groups as one table, in this order."""
        return pa.concat_tables([portion.table for portion in self.row_groups(numbers)])

    def row_groups(self, numbers: Iterable[int]) -> Iterator[RowGroups]:
        """Some row groups in this order, about `READ_ROWS` rows at a time."""
        footers, rows = self._footers, 0
        together: list[int] = []
        for number in numbers:
            same_file = together and footers.file[together[0]] == footers.file[number]
            if together and not (same_file and rows + footers.rows[number] <= READ_ROWS):
                yield self._row_groups_table(together)
                together, rows = [], 0
            together.append(number)
            rows += footers.rows[number]
        if together:
            yield self._row_groups_table(together)

    def _row_groups_table(self, numbers: list[int]) -> RowGroups:
        footers, file = self._footers, int(self._footers.file[numbers[0]])
        rows = footers.rows[numbers]
        try:
            opened = self._file(file)
            # One by one: Arrow cannot read lists of dictionaries from several row groups at once.
            indices = footers.index[numbers].tolist()
            table = pa.concat_tables([opened.read_row_group(i, self._columns) for i in indices])
            if table.num_rows != rows.sum():
                raise pa.ArrowInvalid(f"{rows.sum()} rows expected, {table.num_rows} found")
        except (pa.ArrowException, OSError) as error:
            footers.check_unchanged(file)
            raise PipelineError(
                f"{footers.file_name(file)} cannot be read: {error}. It is damaged; make it again."
            ) from None
        footers.check_unchanged(file)
        return RowGroups(table, rows)

    def _file(self, number: int) -> pq.ParquetFile:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number][1]
        if len(self._open) == _OPEN_FILES:
            self._open.popitem(last=False)[1][0].close()
        source = self._footers.storage.open(self._footers.names[number].as_py())
        metadata = pq.read_metadata(source)
        for name in self._columns:  # Parquet's reader ignores missing columns
            names = metadata.schema.to_arrow_schema().names
            require_column(names, name, "of the data", self._footers.file_name(number))
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        encoded = [
            leaf.path
            for leaf in leaves
            if leaf.physical_type == "BYTE_ARRAY" and leaf.path.split(".")[0] in self._encoded
        ]
        file = pq.ParquetFile(
            source, metadata=metadata, read_dictionary=encoded, page_checksum_verification=True
        )
        self._open[number] = source, file
        return file

    def close(self) -> None:
        """Closes the files."""
        while self._open:
            self._open.popitem()[1][0].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a Parquet file; the error names a damaged file."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{path} is not a readable Parquet file: {error}.") from None
