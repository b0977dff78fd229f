"""Delimited text as a stream of tables, with errors that name the file and the column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyarrow import csv

from pipelines.common.errors import PipelineError
from pipelines.ingest.source import Columns, SourceFile

_BLOCK_BYTES = 8 << 20
_HEADER_BYTES = 1 << 16
_KINDS = {"double": "a number", "float": "a number", "int64": "a whole number"}
_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\S+): (.*)"
)


def delimited_file(
    path: Path,
    delimiter: str = ",",
    names: Sequence[str] | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    finish: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> SourceFile:
    """A text file, gzipped or not, as a `SourceFile`; an empty cell is null.

    Args:
        path: The file.
        delimiter: The delimiter between cells.
        names: Columns of a file without a header.
        types: Types by column; other types are inferred from the first rows.
        finish: Applied to every table.
    """

    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in read_delimited(path, str(path), delimiter, names, types):
            yield finish(table)

    return SourceFile(str(path), read)


def read_delimited(
    source: Path | IO[bytes],
    where: str,
    delimiter: str,
    names: Sequence[str] | None,
    types: Mapping[str, pa.DataType] | None,
) -> Iterator[pa.Table]:
    """The tables of an open file or a path."""
    try:
        reader = csv.open_csv(
            source,
            read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )
        for batch in reader:
            yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError) as error:
        columns = names or _header(source, delimiter)
        raise PipelineError(f"{where}: {_explain(str(error), columns)}") from error


def first_existing(folder: Path, names: Sequence[str]) -> Path:
    """The first existing file of the provider's names; `folder` may be the file itself."""
    if folder.is_file():
        return folder
    for name in names:
        if (folder / name).is_file():
            return folder / name
    files = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise PipelineError(f"{folder}: expected {' or '.join(names)}, found {files}.")


def _header(source: Path | IO[bytes], delimiter: str) -> list[str]:
    """The first line's cells, for an error; empty if it cannot be read."""
    try:
        with pa.input_stream(source) as stream:
            line = stream.read(_HEADER_BYTES).split(b"\n", 1)[0]
    except (pa.ArrowException, OSError):
        return []
    return [cell.strip().strip('"') for cell in line.decode("utf-8", "replace").split(delimiter)]


def _explain(error: str, names: Sequence[str]) -> str:
    conversion = _CONVERSION.search(error)
    if "Empty CSV file" in error:
        return "holds no rows; expected a file with rows."
    if conversion is None:
        return f"cannot be read as delimited text: {error}."
    number, kind, what = conversion.groups()
    name = names[int(number)] if int(number) < len(names) else number
    kind = _KINDS.get(kind, kind)
    return f"column {name!r}: expected {kind}, received an {what}."
