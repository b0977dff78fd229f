"""Reads the events of all files, with one type for each column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest import tables
from pipelines.ingest.aggregates.measures import ticks_per_second, to_ticks
from pipelines.ingest.datasets import movielens
from pipelines.ingest.datasets.download import source_folder
from pipelines.ingest.events.options import EventOptions
from pipelines.ingest.source import SourceFile
from pipelines.storage.columns import require_column

BLOCK = 1 << 20  # events at a time
SECONDS = (-62_135_596_800, 10**11)  # from the year 1 to 5138: a wrong unit is far later


class Block(NamedTuple):
    """Some events in the order of the files.

    Attributes:
        events: The named columns; times are numbers, `second` of which make a second.
        missing: How many events have no user or no item: null or the empty string. They are not
            among `events`.
    """

    events: pa.Table
    missing: int


class EventLog:
    """The events of all files; may be read several times.

    Args:
        options: The `[data]` table.

    Raises:
        PipelineError: There are no files.
    """

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._files = _files(options)
        self._types: dict[str, pa.DataType] = {}  # of the first table

    @property
    def where(self) -> str:
        """The name of the first file."""
        return self._files[0].where

    @property
    def time_type(self) -> pa.DataType:
        """The type of the times in the files. Known once a block was read."""
        return self._types[self._options.time]

    @property
    def second(self) -> int:
        """Units of time of a second. Known once a block was read."""
        return ticks_per_second(self.time_type) or 1

    def blocks(self) -> Iterator[Block]:
        """Yields all events, about `BLOCK` at a time.

        Raises:
            PipelineError: A column is missing or of a wrong type, or a time is missing or no
                number of seconds.
        """
        held: list[pa.Table] = []
        for file in self._files:
            for table in file.read(frozenset(self._options.named)):
                held.append(self._typed(table, file.where))
                if sum(part.num_rows for part in held) >= BLOCK:
                    yield self._block(held)
                    held = []
        if held:
            yield self._block(held)

    def _block(self, held: list[pa.Table]) -> Block:
        table = pa.concat_tables(held).combine_chunks()
        known = pc.and_(_known(table[self._options.user]), _known(table[self._options.item]))
        missing = table.num_rows - pc.sum(known).as_py()
        return Block(table.filter(known) if missing else table, missing)

    def _typed(self, table: pa.Table, where: str) -> pa.Table:
        roles = _roles(self._options)
        for name, key in roles.items():
            require_column(table.column_names, name, key, where)
            _check_type(key, name, table.schema.field(name).type, where)
        if not self._types:
            self._types = {name: table.schema.field(name).type for name in roles}
        columns = {name: self._cast(table[name], name, where) for name in roles}
        name = self._options.time
        columns[name] = pa.chunked_array([_times(columns[name], name, where)])
        return pa.table(columns)

    def _cast(self, column: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
        expected = _wide(self._types[name])
        if _wide(column.type) != expected:
            raise PipelineError(
                f"{where}: column {name!r}: expected {self._types[name]} as in {self.where}. "
                f"Received: {column.type}. Give all files one type."
            )
        try:
            return column.cast(expected)
        except pa.ArrowInvalid as error:
            raise PipelineError(
                f"{where}: column {name!r}: expected values of type {expected}: {error}."
            ) from error


def _files(options: EventOptions) -> list[SourceFile]:
    if options.source == "movielens-1m":
        path = source_folder(options.reading, movielens.DOWNLOAD)
        return [SourceFile.of_table(str(path), movielens.ratings_of(path))]
    return [file for part in tables.read_parquet(options.reading).parts.values() for file in part]


def _roles(options: EventOptions) -> dict[str, str]:
    """The key that names each column."""
    roles = {options.user: "data.user", options.item: "data.item", options.time: "data.time"}
    if options.session is not None:
        roles[options.session] = "data.session"
    return roles | dict.fromkeys(options.columns, "data.columns")


def _check_type(key: str, name: str, kind: pa.DataType, where: str) -> None:
    if pa.types.is_nested(kind):
        raise PipelineError(
            f"{where}: column {name!r} ({key}): expected one value per row, received {kind}. "
            "Give each event a row of its own."
        )
    if key == "data.time":
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (is_number or ticks_per_second(kind)):
            raise PipelineError(
                f"{where}: column {name!r} (data.time): expected seconds as numbers, dates or "
                f"timestamps. Received: {kind}. Convert the column."
            )
    elif not (pa.types.is_integer(kind) or _is_text(kind)):
        raise PipelineError(
            f"{where}: column {name!r} ({key}): expected ids, which are integers or strings. "
            f"Received: {kind}. Convert the column, or cut its numbers into ranges."
        )


def _times(column: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
    """Times as numbers, none of which is missing."""
    is_float = pa.types.is_floating(column.type)
    if column.null_count or (is_float and not pc.all(pc.is_finite(column), min_count=0).as_py()):
        raise PipelineError(
            f"{where}: column {name!r} (data.time) orders the events: expected no nulls and no "
            "NaN. Fill them, or drop these rows."
        )
    times = to_ticks(column)
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


def _known(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mask of the ids that are not missing."""
    if not _is_text(ids.type):
        return ids.is_valid()
    # As in features and in serving; an item "" would be a target that no model can score.
    return pc.fill_null(pc.not_equal(ids, ""), False)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type that a column has in the sequences."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.string() if _is_text(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
