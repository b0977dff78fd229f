"""Adds aggregates to all rows of a source, in bounded memory.

1. A scan of the times finds ranges of about `RANGE_ROWS` rows.
2. A second scan writes what the aggregates need of each row into the file of its range.
3. For each aggregate, a task goes through the ranges in the order of time with its `Past`.
4. The values, put back into the order of the rows, are columns of the source.

Behind an earlier log, the `Past` begins with that log. A row before the newest one of that log sees
what a store would give it: the earlier log as of its newest row.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.engines.base import Engine
from pipelines.ingest.aggregates.spill import Spill, read_range
from pipelines.ingest.event_ids import ID_COLUMNS, Counted, event_ids, first_events
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.splitter import file_chunks, request_runs
from serving.state.columns.times import to_ticks
from serving.state.definitions.aggregate_options import AggregateOptions, check_aggregates
from serving.state.definitions.group import names_of, prior_key
from serving.state.definitions.rule import PARTS
from serving.state.errors import require_column
from serving.state.past.measures import measure
from serving.state.past.past import Past
from serving.state.past.segments import Segments
from serving.state.past.values import feature_values

RANGE_ROWS = 262_144  # about 30 MB
_MOST_RANGES = 64  # each is two open files
_SAMPLED = 256  # one time in so many is enough to divide them
_ROWS, _EARLIER, _EVENTS = "rows", "earlier rows", "events"


def with_aggregates(
    source: Source,
    aggregates: Sequence[AggregateOptions],
    engine: Engine,
    folder: Path,
    state: LogState,
    served: Collection[str] = (),
) -> Source:
    """The source with the aggregates as float32 columns.

    Args:
        source: Files that `check_aggregates` has accepted.
        aggregates: At least one.
        engine: Computes each aggregate as a task, in any process that sees `folder`.
        folder: An empty folder for temporary files; the source reads them until the end.
        state: What they keep of an earlier log; receives what they keep after the last row.
        served: Names of those that the rows have: they stay as they are.
    """
    log = source.without(served)
    lengths, bounds = _scan(log, aggregates[0].time)
    with Spill(folder, bounds) as spill:
        _spill(log, aggregates, spill, state)
    by = list(dict.fromkeys(aggregate.keys for aggregate in aggregates))
    tasks = [
        _Task(
            number,
            aggregate,
            by.index(aggregate.keys),
            _Computed.of(state, aggregate),
            state.since,
            state.event_id is not None,
            state.before.get(aggregate.name),
            state.before.get(prior_key(aggregate)),
            aggregate.name in served,
        )
        for number, aggregate in enumerate(aggregates)
    ]
    added: dict[str, np.ndarray] = {}
    work = partial(_computing, folder, len(bounds) + 1)
    with contextlib.closing(engine.map_ordered(work, tasks)) as results:
        for task, computed in zip(tasks, results, strict=True):
            name = task.aggregate.name
            state.pasts[name] = computed.past
            if computed.prior is not None:
                state.priors[prior_key(task.aggregate)] = computed.prior
            if computed.segments is not None:
                state.segments[name] = computed.segments
            if not task.is_served:
                added[name] = _in_order(folder, task.number, sum(lengths))
    return _with_columns(source, lengths, added)


def _scan(source: Source, time: str) -> tuple[list[int], np.ndarray]:
    """The rows of each file, and times that divide them into ranges."""
    columns = frozenset(name for name in (time, source.request) if name is not None)
    lengths, samples = [], [np.zeros(0, np.int64)]
    for file in _files(source):
        lengths.append(0)
        for table in filter(len, file_chunks(source, file, columns)):
            require_column(table.column_names, time, "data.aggregates: time", file.where)
            ticks = to_ticks(table[time], time, "data.aggregates: time", file.where)
            samples.append(np.sort(ticks)[::_SAMPLED])
            lengths[-1] += table.num_rows
    sampled = np.sort(np.concatenate(samples))
    ranges = min(_MOST_RANGES, sum(lengths) // RANGE_ROWS + 1)
    index = np.arange(1, ranges) * len(sampled) // ranges
    return lengths, np.unique(sampled[index])


def _spill(
    source: Source, aggregates: Sequence[AggregateOptions], spill: Spill, state: LogState
) -> None:
    """Writes what the aggregates need of each row."""
    names = {source.request, state.event_id}
    names |= {name for aggregate in aggregates for name in names_of(aggregate)}
    columns = frozenset(name for name in names if name is not None)
    codes = {aggregate.keys: state.codes_of(aggregate) for aggregate in aggregates}
    time_column = aggregates[0].time
    row = late_rows = 0
    for file in _files(source):
        first_row = row
        for table in filter(len, file_chunks(source, file, columns)):
            check_aggregates(table.schema, aggregates, file.where)
            state.columns |= {field.name: field for field in table.schema}
            time = to_ticks(table[time_column], time_column, "data.aggregates: time", file.where)
            starts, lengths = request_runs(table, source.request)
            moment = np.repeat(np.minimum.reduceat(time, starts), lengths)
            codes_of_key = {by: of.encode(table) for by, of in codes.items()}
            keys = {f"key{i}": of for i, of in enumerate(codes_of_key.values())}
            rows = {"row": np.arange(row, row + table.num_rows), "moment": moment, **keys}
            is_earlier = state.is_earlier(moment)
            spill.add(_ROWS, *_some(moment, rows, ~is_earlier))
            spill.add(_EARLIER, *_some(moment, rows, is_earlier))
            events = {"time": time, **keys}
            ids = {}
            if state.event_id is not None:
                ids = event_ids(table, state.event_id, file.where)
            events |= ids
            state.see(time)
            for number, aggregate in enumerate(aggregates):
                is_event, parts = measure(table, aggregate, file.where, row - first_row)
                events[_is_event(number)] = is_event
                if ids:
                    of_key = codes_of_key[aggregate.keys]
                    state.see_ids(aggregate, of_key, time, is_event, list(ids.values()))
                for place, name in _stored(aggregate):
                    events[_part(number, name)] = parts[:, place]
            too_late = state.too_late(aggregates[0], time)
            late_rows += int(too_late.sum())
            spill.add(_EVENTS, *_some(time, events, ~too_late))
            row += table.num_rows
    if not row:
        raise PipelineError("data.aggregates: the source holds no rows; expected a file with rows.")
    state.late_rows = late_rows


def _some(
    time: np.ndarray, columns: Mapping[str, np.ndarray], chosen: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Some rows."""
    if chosen.all():
        return time, dict(columns)
    return time[chosen], {name: values[chosen] for name, values in columns.items()}


@dataclasses.dataclass(frozen=True)
class _Computed:
    """What an aggregate keeps after some events."""

    past: Past
    prior: Past | None
    segments: Segments | None

    @classmethod
    def of(cls, state: LogState, aggregate: AggregateOptions) -> _Computed:
        """The state of an earlier log."""
        past, prior = state.past_of(aggregate), state.prior_of(aggregate)
        return cls(past, prior, state.segments_of(aggregate))

    def forget(self, newest: int | float) -> None:
        """Adds up or drops what no later moment needs."""
        if self.segments is not None:
            self.segments.forget(newest)
        self.past.forget(newest, self.segments)
        if self.prior is not None:
            self.prior.forget(newest)


@dataclasses.dataclass(frozen=True)
class _Task:
    """One aggregate, before the first event of this log."""

    number: int
    aggregate: AggregateOptions
    key: int  # number of its key's column
    computed: _Computed
    since: int | float | None  # the newest row of the earlier log
    has_ids: bool
    counted: Counted | None  # events of the earlier log
    counted_by_prior: Counted | None
    is_served: bool  # whether the rows have its values


@contextlib.contextmanager
def _computing(folder: Path, ranges: int) -> Iterator[Callable[[_Task], _Computed]]:
    """Yields a function from a task to what its aggregate keeps after the last event."""
    yield partial(_compute, folder, ranges)


def _compute(folder: Path, ranges: int, task: _Task) -> _Computed:
    """Writes the numbers of the rows and their values, range by range."""
    computed = task.computed
    schema = pa.schema({"row": pa.int64(), "value": pa.float32()})
    with (
        pa.OSFile(str(_result(folder, task.number)), "wb") as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):

        def write(name: str, number: int) -> None:
            if not task.is_served:
                writer.write_table(_values_of_rows(folder, name, number, task))

        if task.since is not None:
            for number in range(ranges):
                write(_EARLIER, number)
        for number in range(ranges):
            newest = _add_events(folder, number, task)
            write(_ROWS, number)
            if newest is not None:
                computed.forget(newest if task.since is None else max(newest, task.since))
    return computed


def _values_of_rows(folder: Path, name: str, number: int, task: _Task) -> pa.Table:
    """The numbers of the rows of a range and their values."""
    row, moment, of = read_range(folder, name, number, ["row", "moment", f"key{task.key}"])
    if task.since is not None:
        moment = np.maximum(moment, task.since)
    values = np.full(len(row), np.nan, np.float32)
    values[of >= 0] = _values(task.aggregate, task.computed, of[of >= 0], moment[of >= 0])
    return pa.table({"row": row, "value": values})


def _values(
    aggregate: AggregateOptions, computed: _Computed, key: np.ndarray, moment: np.ndarray
) -> np.ndarray:
    prior = begin = None
    if computed.prior is not None:
        prior = computed.prior.totals_before(np.zeros_like(key), moment)
    if computed.segments is not None:
        begin = computed.segments.begin(key, moment)
    return feature_values(aggregate, computed.past, key, moment, prior, begin)


def _add_events(folder: Path, number: int, task: _Task) -> int | float | None:
    """Adds the events of a range; returns the newest time of its rows."""
    stored, computed = _stored(task.aggregate), task.computed
    names = ["time", f"key{task.key}", _is_event(task.number)]
    names += [_part(task.number, name) for _, name in stored]
    time, keys, is_event, *columns = read_range(folder, _EVENTS, number, names)
    if not len(time):
        return None
    keyed = keys >= 0
    rows = of_all = is_event.astype(bool)
    if task.has_ids:
        ids = read_range(folder, _EVENTS, number, list(ID_COLUMNS))
        rows = first_events(rows & keyed, time, keys, ids, task.counted)
        zero = np.zeros_like(keys)
        of_all = first_events(of_all, time, zero, ids, task.counted_by_prior)
    parts = np.ones((len(time), computed.past.rule.width), np.int64)
    for (place, _), column in zip(stored, columns, strict=True):
        parts[:, place] = column
    if computed.prior is not None:
        computed.prior.add(np.zeros(int(of_all.sum()), np.int64), time[of_all], parts[of_all])
    if computed.segments is not None:
        computed.segments.add(keys[keyed], time[keyed], time[keyed])
    rows = rows & keyed
    computed.past.add(keys[rows], time[rows], parts[rows])
    return time.max().item()


def _stored(aggregate: AggregateOptions) -> list[tuple[int, str]]:
    """The parts that are not 1 in every event."""
    parts = enumerate(PARTS[aggregate.kind])
    return [(place, name) for place, name in parts if name != "events"]


def _is_event(number: int) -> str:
    return f"{number}"


def _part(number: int, name: str) -> str:
    return f"{number}.{name}"


def _result(folder: Path, number: int) -> Path:
    return folder / f"values-{number}.arrow"


def _in_order(folder: Path, number: int, rows: int) -> np.ndarray:
    """The values in the order of the rows, in a file."""
    path = _result(folder, number)
    values = np.memmap(folder / f"column-{number}", np.float32, "w+", shape=(rows,))
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            values[batch["row"].to_numpy()] = batch["value"].to_numpy()
    path.unlink()
    return values


def _with_columns(source: Source, lengths: list[int], columns: Mapping[str, np.ndarray]) -> Source:
    parts: dict[str, list[SourceFile]] = {}
    firsts = iter(np.cumsum([0, *lengths]).tolist())
    for part, files in source.parts.items():
        parts[part] = [_with_values(file, next(firsts), columns) for file in files]
    return dataclasses.replace(source, parts=parts)


def _with_values(file: SourceFile, first: int, added: Mapping[str, np.ndarray]) -> SourceFile:
    def read(columns: Columns) -> Iterator[pa.Table]:
        start = first
        for table in file.read(columns):
            stop = start + table.num_rows
            for name, values in added.items():
                column = pa.array(np.asarray(values[start:stop]), from_pandas=True)
                table = table.append_column(name, column)
            start = stop
            yield table

    return SourceFile(file.where, read)


def _files(source: Source) -> Iterator[SourceFile]:
    for files in source.parts.values():
        yield from files
