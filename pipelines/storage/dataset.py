"""Reads rows of Parquet files: the splits that ingest writes, and any others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import by_name
from pipelines.storage.filesystem import Storage, Where
from pipelines.storage.footers import Footers
from pipelines.storage.partitions import with_partitions
from recsys_attn.schema import Schema
from serving.state.errors import require_column

READ_ROWS = 65_536
_OPEN_FILES = 8


@dataclass(frozen=True)
class DataSplit:
    """The Parquet files of one split: a folder of them, or a single file.

    Args:
        folder: A local path, a URI, or a path inside `filesystem`.
        filesystem: The filesystem; None: the local one, or the URI's.
        features: The features, whose types columns take where files differ. Leave it out for
            files that `ingest` has written.
    """

    folder: Where
    filesystem: fs.FileSystem | None = None
    features: Schema | None = None

    @cached_property
    def footers(self) -> Footers:
        """The footers of the files, read once."""
        return Footers.read(Storage.of(self.folder, self.filesystem), by_name(self.features))

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
        """The columns of any file whose types fit together, each with the type it is read in."""
        return self.footers.types.schema

    @property
    def columns(self) -> list[str]:
        """The columns of any file."""
        return self.footers.types.names

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
        with _readable(footers, file, self._columns):
            opened = self._file(file)
            stored = _stored(opened, self._columns)
            indices = footers.index[numbers].tolist()
            # One by one: Arrow cannot read lists of dictionaries from several row groups at once.
            table = pa.concat_tables([opened.read_row_group(i, stored) for i in indices])
            if table.num_rows != rows.sum():
                raise pa.ArrowInvalid(f"{rows.sum()} rows expected, {table.num_rows} found")
        first_row = int(footers.first_row[numbers[0]])
        table = _columns(footers, file, table, self._columns)
        where = footers.file_name(file)
        return RowGroups(footers.types.read(table, where, first_row, self._encoded), rows)

    def _file(self, number: int) -> pq.ParquetFile:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number][1]
        if len(self._open) == _OPEN_FILES:
            self._open.popitem(last=False)[1][0].close()
        source = self._footers.storage.open(self._footers.names[number].as_py())
        metadata = pq.read_metadata(source)
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


def stored_rows(
    footers: Footers, number: int, columns: Sequence[str], at_once: int
) -> Iterator[pa.Table]:
    """Some columns of one file as they are stored, and those that its folders give, as a stream.

    Args:
        footers: The footers of the files.
        number: Number of the file.
        columns: Columns to read.
        at_once: Rows of a table.
    """
    with (
        _readable(footers, number, columns),
        footers.storage.open(footers.names[number].as_py()) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as file,
    ):
        stored = _stored(file, columns)
        for group in range(file.num_row_groups):  # one by one, as above
            for batch in file.iter_batches(at_once, [group], stored):
                table = pa.Table.from_batches([batch])
                yield _columns(footers, number, table, columns)


@contextmanager
def _readable(footers: Footers, number: int, columns: Sequence[str]) -> Iterator[None]:
    """Turns errors of Arrow and of the file system into one that names file and column."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        footers.check_unchanged(number)
        name = _unreadable(footers, number, columns)
        raise PipelineError(
            f"{footers.file_name(number)}{name} cannot be read: {error}. It is damaged; make it "
            "again."
        ) from None
    footers.check_unchanged(number)


def _unreadable(footers: Footers, number: int, columns: Sequence[str]) -> str:
    """The first column that cannot be read alone, in words."""
    relative = footers.names[number].as_py()
    for name in columns:
        try:
            with footers.storage.open(relative) as source, pq.ParquetFile(source) as file:
                stored = [name] if name in file.schema_arrow.names else []
                for group in range(file.num_row_groups):
                    file.read_row_group(group, stored)
        except (pa.ArrowException, OSError):
            return f": column {name!r}"
    return ""


def _stored(file: pq.ParquetFile, columns: Iterable[str]) -> list[str]:
    """The columns that are in the file itself, or any one of it, as it has the rows."""
    names = file.schema_arrow.names
    return [name for name in columns if name in names] or names[:1]


def _columns(footers: Footers, number: int, table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The columns in order, those that the file's folders give among them."""
    schema, where = footers.schemas[footers.schema[number]], footers.file_name(number)
    for name in columns:
        require_column(schema.names, name, "of the data", where)
    types = {name: schema.field(name).type for name in columns}
    relative = footers.names[number].as_py()
    return with_partitions(table, relative, types, where).select(columns)


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a Parquet file; the error names a damaged file."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{path} is not a readable Parquet file: {error}.") from None
