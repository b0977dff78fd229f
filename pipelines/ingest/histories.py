"""Histories from timestamps: only strictly earlier events."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.event_ids import event_ids, first_events
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import CHUNK_ROWS
from pipelines.storage.request_rows import run_starts
from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.labels import LABEL_ADVICE
from serving.state.columns.times import check_time_type, ticks_per_second, to_ticks
from serving.state.definitions.durations import check_unit, in_ticks
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import require_column
from serving.state.keyed.listed_values import to_words
from serving.state.past.measures import measure
from serving.state.past.past import Past
from serving.state.past.segments import Segments


class HistoryColumns:
    """A table with its histories as list columns, in chunks, since the lists are far larger.

    Row r lists `of` of the rows e with by[e] == by[r], time[e] < time[r] and where[e] == 1,
    oldest first (rows of one time in the table's order), the last `max_length` of them; with
    `ages` it lists time[r] - time[e].

    Args:
        table: All rows, checked by `check_histories`.
        histories: The columns to add.
        state: Receives what the histories keep after the last row.
        request: Column of the request; its rows see the events before its earliest time.
    """

    def __init__(
        self,
        table: pa.Table,
        histories: Sequence[HistoryOptions],
        state: LogState,
        request: str | None = None,
    ) -> None:
        self._table = table
        state.columns |= {field.name: field for field in table.schema}
        starts = None if request is None else run_starts(table[request])
        self._made = [
            (history.name, _History(table, history, state, starts)) for history in histories
        ]

    def chunks(self, first: int, last: int) -> Iterator[pa.Table]:
        """Rows `first` to `last` with their list columns."""
        for start in range(first, max(last, first + 1), CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, last)
            chunk = self._table.slice(start, stop - start)
            for name, history in self._made:
                chunk = chunk.append_column(name, history.lists(start, stop))
            yield chunk


class _History:
    """The past of each owner, and the range of its events for each row."""

    def __init__(
        self,
        table: pa.Table,
        options: HistoryOptions,
        state: LogState,
        starts: np.ndarray | None,
    ) -> None:
        ticks = ticks_per_second(table[options.time].type)
        key = state.codes_of(options).encode(table)
        clock = to_ticks(table[options.time], options.time, _key(options, "time"), "rows")
        state.see(clock)
        self._now = _earliest(clock, starts)
        past = Past(options.rule(ticks), len(state.codes_of(options)))
        is_event, parts = measure(table, options, "rows")
        events = is_event & (key >= 0)
        if state.event_id is not None:
            ids = event_ids(table, state.event_id, "rows")
            state.see_ids(options, key, clock, events, list(ids.values()))
            events = first_events(events, clock, key, list(ids.values()))
        past.add(key[events], clock[events], parts[events])
        begin = None
        if options.forget_after is not None:
            late = None if state.late is None else in_ticks(state.late, ticks)
            segments = Segments(in_ticks(options.forget_after, ticks), late)
            segments.add(key[key >= 0], clock[key >= 0], clock[key >= 0])
            begin = segments.begin(key, self._now)
            state.segments[options.name] = segments
        # A row whose owner is missing has no past: no event has the key -1.
        self._start, self._end = past.ranges(key, self._now, begin)
        self._values = table[options.of].combine_chunks().take(pa.array(past.parts[:, 1]))
        self._then = past.time if options.ages else None
        self._second = past.rule.second
        state.pasts[options.name] = _last(past, state, options, table[options.of])

    def lists(self, first: int, last: int) -> pa.Array:
        start, length = self._start[first:last], (self._end - self._start)[first:last]
        offsets = np.concatenate(([0], np.cumsum(length)))
        index = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], length)
        if self._then is None:
            values = self._values.take(pa.array(index))
        else:
            ages = (np.repeat(self._now[first:last], length) - self._then[index]) / self._second
            values = pa.array(ages)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _last(past: Past, state: LogState, options: HistoryOptions, column: pa.ChunkedArray) -> Past:
    """What a past keeps after the last row, with its values."""
    kept, segments = copy.copy(past), state.segments.get(options.name)
    if state.newest is not None:
        kept.forget(state.newest, segments)
        if segments is not None:
            segments.forget(state.newest)
    texts: list[str] = []
    words = to_words(column.take(pa.array(kept.parts[:, 1])), texts)
    kept.parts = np.stack([kept.parts[:, 0], words], axis=1)
    state.texts[options.name] = texts
    return kept


def _earliest(times: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """The earliest time of each row's request; without requests, its own."""
    if starts is None or not len(starts):
        return times
    return np.repeat(np.minimum.reduceat(times, starts), np.diff(starts, append=len(times)))


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
    kind = schema.field(options.time).type
    check_time_type(kind, options.time, _key(options, "time"), where)
    check_unit(options.forget_after, _key(options, "forget_after"), options.time, kind, where)
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
