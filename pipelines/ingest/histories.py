"""Histories from timestamps: only strictly earlier events."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.event_ids import event_ids, first_events
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import CHUNK_ROWS
from pipelines.storage.request_rows import run_starts
from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.labels import LABEL_ADVICE
from serving.state.columns.times import check_time_type, to_ticks
from serving.state.definitions.durations import check_unit
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import require_column
from serving.state.keyed.listed_values import to_array, to_words
from serving.state.past.measures import measure
from serving.state.past.past import Past
from serving.state.past.segments import Segments


class HistoryColumns:
    """A table with its histories as list columns, in chunks, since the lists are far larger.

    Row r lists `of` of the rows e with by[e] == by[r], time[e] < time[r] and where[e] == 1,
    oldest first (rows of one time in the table's order), the last `max_length` of them; with
    `ages` it lists time[r] - time[e]. A row before the newest one of an earlier log sees what a
    store would give it: the earlier log as of its newest row.

    Args:
        table: All rows, checked by `check_histories`.
        histories: The columns to add.
        state: What they keep of an earlier log; receives what they keep after the last row.
        request: Column of the request; its rows see the events before its earliest time.
        served: Names of those that the rows have: they stay as they are.
    """

    def __init__(
        self,
        table: pa.Table,
        histories: Sequence[HistoryOptions],
        state: LogState,
        request: str | None = None,
        served: Collection[str] = (),
    ) -> None:
        self._table = table
        log = _Log.of(table, histories[0], state, request)
        made = [(history.name, _History(log, history, state)) for history in histories]
        self._made = [(name, history) for name, history in made if name not in served]

    def chunks(self, first: int, last: int) -> Iterator[pa.Table]:
        """Rows `first` to `last` with their list columns."""
        for start in range(first, max(last, first + 1), CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, last)
            chunk = self._table.slice(start, stop - start)
            for name, history in self._made:
                chunk = chunk.append_column(name, history.lists(start, stop))
            yield chunk


@dataclass(frozen=True)
class _Log:
    """The rows, as all histories read them.

    Attributes:
        table: All columns.
        time: `(rows,)`.
        moment: `(rows,)`, the time of which each row's values are.
        is_earlier: `(rows,)`, whether a row is before the newest one of the earlier log.
        counts: `(rows,)`, whether a row is not too late behind the earlier log.
        ids: Columns of `event_ids`, if events have such.
    """

    table: pa.Table
    time: np.ndarray
    moment: np.ndarray
    is_earlier: np.ndarray
    counts: np.ndarray
    ids: list[np.ndarray] | None

    @classmethod
    def of(
        cls, table: pa.Table, options: HistoryOptions, state: LogState, request: str | None
    ) -> _Log:
        """Reads the times of a table, and its ids."""
        state.columns |= {field.name: field for field in table.schema}
        time = to_ticks(table[options.time], options.time, _key(options, "time"), "rows")
        state.see(time)
        moment = _earliest(time, None if request is None else run_starts(table[request]))
        is_earlier, counts = state.is_earlier(moment), ~state.too_late(options, time)
        if state.since is not None:
            moment = np.maximum(moment, state.since)
        state.late_rows = int((~counts).sum())
        ids = None
        if state.event_id is not None:
            ids = list(event_ids(table, state.event_id, "rows").values())
        return cls(table, time, moment, is_earlier, counts, ids)


class _History:
    """The past of each owner, and the range of its events for each row."""

    def __init__(self, log: _Log, options: HistoryOptions, state: LogState) -> None:
        key = state.codes_of(options).encode(log.table)
        past, segments = state.past_of(options), state.segments_of(options)
        values = _with_earlier(log.table[options.of], past, state.texts.get(options.name, []))
        earlier = _Ranges.of(past, segments, key[log.is_earlier], log.moment[log.is_earlier])
        is_event, parts = measure(log.table, options, "rows")
        events = is_event & log.counts & (key >= 0)
        if log.ids is not None:
            state.see_ids(options, key, log.time, events, log.ids)
            counted = state.before.get(options.name)
            events = first_events(events, log.time, key, log.ids, counted)
        parts[:, 1] += len(values) - log.table.num_rows
        past.add(key[events], log.time[events], parts[events])
        if segments is not None:
            present = (key >= 0) & log.counts
            segments.add(key[present], log.time[present], log.time[present])
            state.segments[options.name] = segments
        # A row whose owner is missing has no past: no event has the key -1.
        ranges = _Ranges.of(past, segments, key, log.moment)
        if len(earlier.start):
            ranges = ranges.with_earlier(log.is_earlier, earlier)
        self._start, self._end = ranges.start, ranges.end
        self._values = values.combine_chunks().take(pa.array(ranges.place))
        self._then = ranges.time if options.ages else None
        self._now, self._second = log.moment, past.rule.second
        state.pasts[options.name] = _last(past, state, options, values)

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


@dataclass(frozen=True)
class _Ranges:
    """For each row its events, `start` to `end - 1` of those in `place` and `time`."""

    start: np.ndarray
    end: np.ndarray
    place: np.ndarray  # of each event's value
    time: np.ndarray

    @classmethod
    def of(
        cls, past: Past, segments: Segments | None, key: np.ndarray, moment: np.ndarray
    ) -> _Ranges:
        """The events of a past before each moment."""
        begin = None if segments is None else segments.begin(key, moment)
        return cls(*past.ranges(key, moment, begin), past.parts[:, 1], past.time)

    def with_earlier(self, rows: np.ndarray, earlier: _Ranges) -> _Ranges:
        """These ranges, but of some rows those of the earlier log, whose events come last."""
        start, end, first = self.start.copy(), self.end.copy(), len(self.place)
        start[rows], end[rows] = earlier.start + first, earlier.end + first
        place = np.concatenate([self.place, earlier.place])
        return _Ranges(start, end, place, np.concatenate([self.time, earlier.time]))


def _with_earlier(column: pa.ChunkedArray, past: Past, texts: list[str]) -> pa.ChunkedArray:
    """The values of an earlier log before those of a column; parts get their places."""
    if not len(past.parts):
        return column
    known, words = past.parts.T
    earlier = to_array(known, words, column.type, texts)
    past.parts = np.stack([known, np.arange(len(words))], axis=1)
    return pa.chunked_array([earlier, *column.chunks], column.type)


def _last(past: Past, state: LogState, options: HistoryOptions, values: pa.ChunkedArray) -> Past:
    """What a past keeps after the last row, with its values."""
    kept, segments = copy.copy(past), state.segments.get(options.name)
    if state.newest is not None:
        if segments is not None:
            segments.forget(state.newest)
        kept.forget(state.newest, segments)
    texts: list[str] = []
    words = to_words(values.take(pa.array(kept.parts[:, 1])), texts)
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
