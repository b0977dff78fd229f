"""Reads the events of all files, with one type for each column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest import table_files
from pipelines.ingest.common_schema import common_files
from pipelines.ingest.datasets import movielens
from pipelines.ingest.datasets.download import source_folder
from pipelines.ingest.events.event_options import EventOptions
from pipelines.ingest.source import SourceFile
from pipelines.storage.columns import accepts, arrow_type, plain
from pipelines.storage.exact_casts import cast_exactly
from recsys_attn.schema import Categorical
from serving.state.columns.arrow_kinds import is_bytes, is_text
from serving.state.columns.missing import is_missing
from serving.state.columns.times import check_time_type, ticks_per_second, to_ticks
from serving.state.errors import require_column

BLOCK = 1 << 20  # events at a time
SECONDS = (-62_135_596_800, 10**11)  # from the year 1 to 5138: a wrong unit is far later


class EventBlock(NamedTuple):
    """Some events in the order of the files.

    Attributes:
        events: The named columns; times are numbers, `second` of which make a second.
        missing: How many events have no user or no item. They are not among `events`.
    """

    events: pa.Table
    missing: int


class EventLog:
    """The events of all files; may be read several times.

    Args:
        options: The `[data]` table.

    Attributes:
        time_type: The type of the times over all files.

    Raises:
        PipelineError: There are no files, or a column of a file is missing or of a wrong type.
    """

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        files = _files(options)
        ids = _checked_ids(files, options)
        self._files = common_files(files, ids, options.named)
        header = next((file.schema for file in self._files if file.schema is not None), None)
        self._types = {name: arrow_type(feature.dtype) for name, feature in ids.items()}
        self.time_type = pa.null() if header is None else header.field(options.time).type

    @property
    def where(self) -> str:
        """The name of the first file."""
        return self._files[0].where

    @property
    def second(self) -> int:
        """Units of time of a second."""
        return ticks_per_second(self.time_type) or 1

    def blocks(self) -> Iterator[EventBlock]:
        """Yields all events, about `BLOCK` at a time.

        Raises:
            PipelineError: A time is missing or no number of seconds, or a value does not fit.
        """
        held: list[pa.Table] = []
        for file in self._files:
            for table in filter(len, file.read(frozenset(self._options.named))):
                held.append(self._typed(table, file.where))
                if sum(part.num_rows for part in held) >= BLOCK:
                    yield self._block(held)
                    held = []
        if held:
            yield self._block(held)

    def _block(self, held: list[pa.Table]) -> EventBlock:
        table = pa.concat_tables(held).combine_chunks()
        # An item without an id would be a target that no model can score.
        missing = is_missing(table[self._options.user]) | is_missing(table[self._options.item])
        count = int(missing.sum())
        return EventBlock(table.filter(pa.array(~missing)) if count else table, count)

    def _typed(self, table: pa.Table, where: str) -> pa.Table:
        time = self._options.time
        ids = {name: self._id(table[name], name, where) for name in self._types}
        return pa.table({**ids, time: _times(table[time], time, where)})

    def _id(self, column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
        try:
            return cast_exactly(column, self._types[name])
        except pa.ArrowInvalid as error:
            if not pa.types.is_integer(column.type):
                key = _roles(self._options)[name]
                raise _no_ids(name, key, column.type, where) from None
            raise PipelineError(
                f"{where}: column {name!r}: expected values of type {self._types[name]}: {error}. "
                "Convert the column to strings."
            ) from None


def _files(options: EventOptions) -> list[SourceFile]:
    if options.source == "movielens-1m":
        path = source_folder(options.reading, movielens.DOWNLOAD)
        return [SourceFile.of_table(str(path), movielens.ratings_of(path))]
    return [
        file for part in table_files.read_parquet(options.reading).parts.values() for file in part
    ]


def _roles(options: EventOptions) -> dict[str, str]:
    """The key that names each column."""
    roles = {options.user: "data.user", options.item: "data.item", options.time: "data.time"}
    if options.session is not None:
        roles[options.session] = "data.session"
    return roles | dict.fromkeys(options.columns, "data.columns")


def _checked_ids(files: Sequence[SourceFile], options: EventOptions) -> dict[str, Categorical]:
    """The columns of ids, by the headers of all files: texts or integers as in the first one."""
    ids: dict[str, Categorical] = {}
    for file in files:
        columns = file.schema
        if columns is None:
            continue
        for name, key in _roles(options).items():
            require_column(columns.names, name, key, file.where)
            kind = plain(columns.field(name).type)
            _check_type(key, name, kind, file.where)
            if name != options.time and not (name in ids or pa.types.is_null(kind)):
                is_integer = accepts("int64", kind)
                ids[name] = Categorical(name, dtype="int64" if is_integer else "string")
    unknown = [name for name in options.named if name != options.time and name not in ids]
    return ids | {name: Categorical(name, dtype="int64") for name in unknown}


def _check_type(key: str, name: str, kind: pa.DataType, where: str) -> None:
    if pa.types.is_nested(kind):
        raise PipelineError(
            f"{where}: column {name!r} ({key}): expected one value per row, received {kind}. "
            "Give each event a row of its own."
        )
    if key == "data.time":
        check_time_type(kind, name, key, where)
    elif not (accepts("int64", kind) or is_text(kind) or is_bytes(kind)):
        raise _no_ids(name, key, kind, where)


def _times(column: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
    """Times as numbers, none of which is missing."""
    times = to_ticks(column, name, "data.time", where)
    second = ticks_per_second(column.type)
    first, last = (bound * (second or 1) for bound in SECONDS)
    wrong = times[(times < first) | (times > last)]
    if wrong.size and second is None:
        raise PipelineError(
            f"{where}: column {name!r} (data.time): expected seconds since 1970, from "
            f"{first:,} to {last:,} (the years 1 to 5138). Received: {wrong[0]:,}. Divide "
            "milliseconds by 1,000 and microseconds by 1,000,000, or convert the column to "
            "timestamps."
        )
    if wrong.size:
        raise PipelineError(
            f"{where}: column {name!r} (data.time): expected times of the years 1 to 5138. "
            f"Received: {column.type} with the number {wrong[0]:,}. Give the column the unit of "
            "its numbers."
        )
    return times


def _no_ids(name: str, key: str, kind: pa.DataType, where: str) -> PipelineError:
    return PipelineError(
        f"{where}: column {name!r} ({key}): expected ids, which are integers or strings. "
        f"Received: {kind}. Convert the column, or cut its numbers into ranges."
    )
