"""Files of events: Parquet, and JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from serving.state.errors import DataError
from serving.state.following.log import BATCH_ROWS, Events, JsonEvents, TableEvents, parsed

ROW_BITS = 40  # of the place of a row in its file
_LINES = (".jsonl", ".ndjson")
_ENDS = (".parquet", *_LINES)
_CHANGED = "has changed after it was read; give new rows in a file of a new name"
_LONGEST = 1 << 20  # bytes of a line


def event_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of events in a folder by their names, in whose order they come."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_hidden = any(part[0] in "._" for part in name.split("/"))
        if path.suffix in _ENDS and not is_hidden and not path.is_dir():
            yield name, path


def is_among(files: Mapping[str, int], name: str, size: int) -> bool:
    """Whether a file is among some others, by name and size."""
    return any(
        of_size == size and (other == name or other.endswith(f"/{name}"))
        for other, of_size in files.items()
    )


def readable_end(path: Path, start: int) -> int:
    """The byte after the last whole event of a file; `start` if there is none after it.

    Args:
        path: The file.
        start: Its first unread byte.

    Raises:
        DataError: The file has changed after it was read, or cannot be read.
    """
    size = path.stat().st_size
    if path.suffix not in _LINES:
        if start:
            raise DataError(_CHANGED)
        try:
            pq.read_metadata(path)
        except pa.ArrowInvalid as error:
            raise DataError(f"cannot be read, and is left for later: {error}") from None
        return size
    with path.open("rb") as file:
        file.seek(max(start, size - _LONGEST))
        tail = file.read()
    line = tail[tail.rfind(b"\n") + 1 :]
    if parsed(line) is not None:  # the last line needs no end
        return size
    return max(start, size - len(line))


def read_from(
    path: Path, columns: Sequence[str], first: int, stop: int
) -> Iterator[tuple[np.ndarray, Events]]:
    """The events of a file in parts, each with the places of its events in the file.

    Args:
        path: The file.
        columns: Names of the columns to read of a Parquet file.
        first: The first place: a row of a Parquet file, a byte of JSON lines.
        stop: The byte that ends them.

    Raises:
        DataError: A Parquet file has changed.
    """
    if path.suffix in _LINES:
        return _lines(path, first, stop)
    if path.stat().st_size != stop:
        raise DataError(_CHANGED)
    return _tables(path, columns, first)


def _tables(path: Path, columns: Sequence[str], first: int) -> Iterator[tuple[np.ndarray, Events]]:
    with pq.ParquetFile(path) as file:
        row = 0
        for number in range(file.num_row_groups):
            count = file.metadata.row_group(number).num_rows
            if row + count > first:
                present = [name for name in columns if name in file.schema_arrow.names]
                table = file.read_row_group(number, present)
                for start in range(max(first - row, 0), count, BATCH_ROWS):
                    part = table.slice(start, BATCH_ROWS)
                    yield row + start + np.arange(part.num_rows), TableEvents(part)
            row += count


def _lines(path: Path, first: int, stop: int) -> Iterator[tuple[np.ndarray, Events]]:
    places: list[int] = []
    lines: list[bytes] = []
    with path.open("rb") as file:
        file.seek(max(first - 1, 0))
        place = file.tell()
        while place < stop:
            line = file.readline()
            if not line:
                break
            if place >= first and line.strip():
                places.append(place)
                lines.append(line)
            place += len(line)
            if len(lines) == BATCH_ROWS:
                yield np.array(places), JsonEvents(lines)
                places, lines = [], []
    if lines:
        yield np.array(places), JsonEvents(lines)
