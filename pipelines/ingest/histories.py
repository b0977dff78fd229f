"""Histories from timestamps: only strictly earlier events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.common.arrow_kinds import is_number
from pipelines.common.errors import PipelineError
from pipelines.common.missing import with_nulls
from pipelines.common.times import check_time_type, ticks_per_second, to_ticks
from pipelines.ingest.data_options import HistoryOptions
from pipelines.ingest.source import CHUNK_ROWS
from pipelines.ingest.table_checks import LABEL_ADVICE, is_one
from pipelines.storage.columns import require_column
from pipelines.storage.request_rows import run_starts


class HistoryColumns:
    """A table with its histories as list columns, in chunks, since the lists are far larger.

    Row r lists `of` of the rows e with by[e] == by[r], time[e] < time[r] and where[e] == 1,
    oldest first (rows of one time in the table's order), the last `max_length` of them; with
    `ages` it lists time[r] - time[e].

    Args:
        table: All rows, checked by `check_histories`.
        histories: The columns to add.
        request: Column of the request; its rows see the events before its earliest time.
    """

    def __init__(
        self, table: pa.Table, histories: Sequence[HistoryOptions], request: str | None = None
    ) -> None:
        self._table = table
        starts = None if request is None else run_starts(table[request])
        self._made = [(history.name, _History(table, history, starts)) for history in histories]

    def chunks(self, first: int, last: int) -> Iterator[pa.Table]:
        """Rows `first` to `last` with their list columns."""
        for start in range(first, max(last, first + 1), CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, last)
            chunk = self._table.slice(start, stop - start)
            for name, history in self._made:
                chunk = chunk.append_column(name, history.lists(start, stop))
            yield chunk


class _History:
    """Events sorted by (key, time), and the range of them for each row."""

    def __init__(self, table: pa.Table, options: HistoryOptions, starts: np.ndarray | None) -> None:
        owner = with_nulls(table[options.by]).combine_chunks()
        key = owner.dictionary_encode(null_encoding="encode").indices.to_numpy()
        clock = to_ticks(table[options.time], options.time, _key(options, "time"), "rows")
        time = np.unique(clock, return_inverse=True)[1]
        times = time.max(initial=0) + 1
        moment = key * times + time  # orders by key, then by time
        is_event = _events(table, options) & owner.is_valid().to_numpy(zero_copy_only=False)
        events = np.flatnonzero(is_event)
        events = events[np.argsort(moment[events], kind="stable")]
        self._values = table[options.of].combine_chunks().take(pa.array(events))
        self._ages = None
        if options.ages:
            second = ticks_per_second(table[options.time].type) or 1
            self._ages = clock[events], _earliest(clock, starts), second
        now = key * times + _earliest(time, starts)
        self._end = np.searchsorted(moment[events], now, side="left")
        own_first = np.searchsorted(key[events], key, side="left")
        # A row whose key is missing has no past: its key's range of events is empty.
        self._start = np.maximum(own_first, self._end - options.max_length)

    def lists(self, first: int, last: int) -> pa.Array:
        start, length = self._start[first:last], (self._end - self._start)[first:last]
        offsets = np.concatenate(([0], np.cumsum(length)))
        index = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], length)
        if self._ages is None:
            values = self._values.take(pa.array(index))
        else:
            then, now, second = self._ages
            ages = (np.repeat(now[first:last], length) - then[index]) / second
            values = pa.array(ages)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _earliest(times: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """The earliest time of each row's request; without requests, its own."""
    if starts is None or not len(starts):
        return times
    return np.repeat(np.minimum.reduceat(times, starts), np.diff(starts, append=len(times)))


def _events(table: pa.Table, options: HistoryOptions) -> np.ndarray:
    if options.where is None:
        return np.ones(table.num_rows, bool)
    return is_one(table[options.where])


def check_histories(table: pa.Table, histories: Sequence[HistoryOptions], where: str) -> None:
    """Checks that a file has the columns of the histories, and a time in every row."""
    check_history_columns(table.schema, histories, where)
    for history in histories:
        to_ticks(table[history.time], history.time, _key(history, "time"), where)


def check_history_columns(
    schema: pa.Schema, histories: Sequence[HistoryOptions], where: str
) -> None:
    """Checks names and types of the columns of the histories."""
    for history in histories:
        _check(schema, history, where)


def _check(schema: pa.Schema, options: HistoryOptions, where: str) -> None:
    roles = {"of": options.of, "by": options.by, "time": options.time, "where": options.where}
    for role, name in roles.items():
        if name is not None:
            require_column(schema.names, name, _key(options, role), where)
    if options.name in schema.names:
        raise PipelineError(
            f"{where}: the history {options.name!r} would replace a column of that name; "
            "give data.histories another `name`."
        )
    check_time_type(schema.field(options.time).type, options.time, _key(options, "time"), where)
    if pa.types.is_nested(schema.field(options.by).type):
        raise PipelineError(
            f"{where}: column {options.by!r} ({_key(options, 'by')}): expected one value per row, "
            f"received {schema.field(options.by).type}. Give each owner a row of its own."
        )
    if options.where is not None and not is_number(schema.field(options.where).type):
        raise PipelineError(
            f"{where}: column {options.where!r} (data.histories {options.name!r}: where) must hold "
            f"0 and 1, received {schema.field(options.where).type}. {LABEL_ADVICE}"
        )


def _key(options: HistoryOptions, role: str) -> str:
    return f"data.histories {options.name!r}: {role}"
