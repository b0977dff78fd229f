"""Files of outcomes: Parquet, and JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.outcomes.row_times import RowTimes
from serving.state.columns.labels import cast_label
from serving.state.errors import DataError, did_you_mean, require_column
from serving.state.following.files import event_files, read_from, readable_end
from serving.state.following.log import BATCH_ROWS, parsed
from serving.state.online.event_rows import rows_of, rows_of_table

TICK = "time in ticks"


@dataclass(frozen=True)
class OutcomeColumns:
    """The columns of an outcome.

    Attributes:
        keys: Those that name its row, in the types that the rows have.
        times: The times of the rows.
        time: The column of its time.
        labels: The labels, some of which it has.
    """

    keys: pa.Schema
    times: RowTimes
    time: str
    labels: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.keys.names, self.time, *self.labels]


def files_of(folder: Path) -> dict[str, Path]:
    """The files of outcomes in a folder, by name.

    Raises:
        PipelineError: There is no such folder, or it has no file.
    """
    files = dict(event_files(folder)) if folder.is_dir() else {}
    if not files:
        raise PipelineError(
            "--outcomes: expected a folder with files of events: *.parquet, *.jsonl or *.ndjson. "
            f"Received: {folder}."
        )
    return files


def column_names(path: Path) -> list[str]:
    """The columns of the first outcome of a file.

    Raises:
        PipelineError: The file cannot be read.
    """
    if path.suffix == ".parquet":
        return list(_parquet(path).schema_arrow.names)
    with path.open("rb") as file:
        line = next((line for line in file if line.strip()), b"{}")
    event = parsed(line)
    if event is None:
        raise PipelineError(
            f"{path}: expected a JSON object in each line. Received: {line[:80]!r}."
        )
    return list(event)


def read_outcomes(path: Path, columns: OutcomeColumns) -> Iterator[pa.Table]:
    """The outcomes of a file in parts: their keys, labels as int8, and `TICK`.

    Args:
        path: The file.
        columns: The columns.

    Raises:
        PipelineError: The file cannot be read, lacks a column or has a wrong value.
    """
    has_label, first = False, 0
    try:
        for table in _tables(path, columns):
            has_label = has_label or any(name in columns.labels for name in table.column_names)
            yield _converted(table, columns, str(path), first)
            first += table.num_rows
    except DataError as error:
        text = str(error)
        raise PipelineError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    if first and not has_label:
        names = column_names(path)
        near = did_you_mean(columns.labels[0], names)
        raise PipelineError(
            f"{path}: expected a column with a label: {', '.join(columns.labels)}. Received: "
            f"{', '.join(names)}.{near}"
        )


def _converted(table: pa.Table, columns: OutcomeColumns, where: str, first: int) -> pa.Table:
    keys = rows_of_table(table, columns.keys, where)
    arrays = {name: keys[name] for name in keys.column_names}
    for name in columns.labels:
        if name in table.column_names:
            arrays[name] = cast_label(table[name], name, where, first)
        else:
            arrays[name] = pa.nulls(table.num_rows, pa.int8())
    ticks = columns.times.of_column(table[columns.time], columns.time, where)
    return pa.table([*arrays.values(), pa.array(ticks)], names=[*arrays, TICK])


def _tables(path: Path, columns: OutcomeColumns) -> Iterator[pa.Table]:
    if path.suffix != ".parquet":
        yield from _lines(path, columns)
        return
    with _parquet(path) as file:
        names = file.schema_arrow.names
        for name in (*columns.keys.names, columns.time):
            require_column(names, name, "a column of an outcome", str(path))
        present = [name for name in columns.names if name in names]
        for batch in file.iter_batches(BATCH_ROWS, columns=present):
            yield pa.Table.from_batches([batch])


def _lines(path: Path, columns: OutcomeColumns) -> Iterator[pa.Table]:
    kinds = {field.name: field.type for field in columns.keys}
    kinds |= {columns.time: columns.times.kind, **dict.fromkeys(columns.labels, pa.int8())}
    for places, texts in read_from(path, columns.names, 0, readable_end(path, 0)):
        events = [texts.shown(row) for row in range(len(texts))]
        for place, event in zip(places.tolist(), events, strict=True):
            if not isinstance(event, dict):
                raise DataError(f"byte {place}: expected a JSON object. Received: {event[:80]!r}.")
        labels = [name for name in columns.labels if any(name in event for event in events)]
        schema = pa.schema(
            [
                *columns.keys,
                pa.field(columns.time, columns.times.kind),
                *(pa.field(name, pa.int8()) for name in labels),
            ]
        )
        filled = [{**dict.fromkeys(labels), **event} for event in events]
        yield rows_of(filled, schema, [columns.time])


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowException as error:
        raise PipelineError(
            f"{path} cannot be read: {error}. Remove it, or write it again."
        ) from None
