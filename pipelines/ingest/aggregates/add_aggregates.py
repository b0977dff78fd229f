"""Adds aggregates to all rows of a source, in bounded memory.

1. A scan of the times finds ranges of about `RANGE_ROWS` rows.
2. A second scan writes what the aggregates need of each row into the file of its range.
3. For each aggregate, a task goes through the ranges in the order of time with its `Past`.
4. The values, put back into the order of the rows, are columns of the source.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.engines.base import Engine
from pipelines.ingest.aggregates.spill import Spill, read_range
from pipelines.ingest.event_ids import ID_COLUMNS, event_ids, first_events
from pipelines.ingest.log_state import LogState
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.splitter import file_chunks, request_runs
from serving.state.columns.times import ticks_per_second, to_ticks
from serving.state.definitions.aggregate_options import AggregateOptions, check_aggregates
from serving.state.definitions.durations import Duration, in_ticks
from serving.state.definitions.group import has_prior, names_of, overall, prior_key
from serving.state.definitions.rule import PARTS
from serving.state.errors import require_column
from serving.state.past.measures import measure
from serving.state.past.past import Past
from serving.state.past.segments import Segments
from serving.state.past.values import feature_values

RANGE_ROWS = 262_144  # about 30 MB
_MOST_RANGES = 64  # each is two open files
_SAMPLED = 256  # one time in so many is enough to divide them
_ROWS, _EVENTS = "rows", "events"


def with_aggregates(
    source: Source,
    aggregates: Sequence[AggregateOptions],
    engine: Engine,
    folder: Path,
    state: LogState,
) -> Source:
    """The source with the aggregates as float32 columns.

    Args:
        source: Files that `check_aggregates` has accepted.
        aggregates: At least one.
        engine: Computes each aggregate as a task, in any process that sees `folder`.
        folder: An empty folder for temporary files; the source reads them until the end.
        state: Receives what the aggregates keep after the last row.
    """
    lengths, bounds = _scan(source, aggregates[0].time)
    with Spill(folder, bounds) as spill:
        columns = _spilled(source, aggregates, spill, state)
    ticks = ticks_per_second(columns.field(aggregates[0].time).type)
    tasks = [
        _Task(
            number,
            aggregate,
            ticks,
            list(dict.fromkeys(a.keys for a in aggregates)).index(aggregate.keys),
            len(state.codes_of(aggregate)),
            state.late,
            state.event_id is not None,
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


def _spilled(
    source: Source, aggregates: Sequence[AggregateOptions], spill: Spill, state: LogState
) -> pa.Schema:
    """Writes what the aggregates need of each row; returns the columns of the rows."""
    names = {source.request, state.event_id}
    names |= {name for aggregate in aggregates for name in names_of(aggregate)}
    columns = frozenset(name for name in names if name is not None)
    codes = {aggregate.keys: state.codes_of(aggregate) for aggregate in aggregates}
    time_column = aggregates[0].time
    schema: pa.Schema | None = None
    row = 0
    for file in _files(source):
        first_row = row
        for table in filter(len, file_chunks(source, file, columns)):
            check_aggregates(table.schema, aggregates, file.where)
            schema = schema or table.schema
            time = to_ticks(table[time_column], time_column, "data.aggregates: time", file.where)
            starts, lengths = request_runs(table, source.request)
            moment = np.repeat(np.minimum.reduceat(time, starts), lengths)
            codes_of_key = {by: of.encode(table) for by, of in codes.items()}
            keys = {f"key{i}": of for i, of in enumerate(codes_of_key.values())}
            rows = {"row": np.arange(row, row + table.num_rows), "moment": moment, **keys}
            spill.add(_ROWS, moment, rows)
            events = {"time": time, **keys}
            ids = {}
            if state.event_id is not None:
                ids = event_ids(table, state.event_id, file.where)
            events |= ids
            state.columns |= {field.name: field for field in table.schema}
            state.see(time)
            for number, aggregate in enumerate(aggregates):
                is_event, parts = measure(table, aggregate, file.where, row - first_row)
                events[_is_event(number)] = is_event
                if ids:
                    of_key = codes_of_key[aggregate.keys]
                    state.see_ids(aggregate, of_key, time, is_event, list(ids.values()))
                for place, name in _stored(aggregate):
                    events[_part(number, name)] = parts[:, place]
            spill.add(_EVENTS, time, events)
            row += table.num_rows
    if schema is None:
        raise PipelineError("data.aggregates: the source holds no rows; expected a file with rows.")
    return schema


@dataclasses.dataclass(frozen=True)
class _Task:
    """One aggregate, before the first event."""

    number: int
    aggregate: AggregateOptions
    ticks: int | None
    key: int  # number of its key's column
    keys: int
    late: Duration | None
    has_ids: bool


@dataclasses.dataclass(frozen=True)
class _Computed:
    """What an aggregate keeps after the last event."""

    past: Past
    prior: Past | None
    segments: Segments | None

    @classmethod
    def empty(cls, task: _Task) -> _Computed:
        """Before the first event."""
        aggregate = task.aggregate
        prior = Past(overall(aggregate).rule(task.ticks), 1) if has_prior(aggregate) else None
        gap = aggregate.forget_after
        late = None if task.late is None else in_ticks(task.late, task.ticks)
        segments = None if gap is None else Segments(in_ticks(gap, task.ticks), late)
        return cls(Past(aggregate.rule(task.ticks), task.keys), prior, segments)

    def forget(self, newest: int | float) -> None:
        """Adds up or drops what no later moment needs."""
        self.past.forget(newest, self.segments)
        if self.prior is not None:
            self.prior.forget(newest)
        if self.segments is not None:
            self.segments.forget(newest)


@contextlib.contextmanager
def _computing(folder: Path, ranges: int) -> Iterator[Callable[[_Task], _Computed]]:
    """Yields a function from a task to what its aggregate keeps after the last event."""
    yield partial(_compute, folder, ranges)


def _compute(folder: Path, ranges: int, task: _Task) -> _Computed:
    """Writes the numbers of the rows and their values, range by range."""
    computed, key = _Computed.empty(task), f"key{task.key}"
    schema = pa.schema({"row": pa.int64(), "value": pa.float32()})
    with (
        pa.OSFile(str(_result(folder, task.number)), "wb") as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):
        for number in range(ranges):
            newest = _add_events(folder, number, task, computed)
            row, moment, of = read_range(folder, _ROWS, number, ["row", "moment", key])
            values = np.full(len(row), np.nan, np.float32)
            values[of >= 0] = _values(task.aggregate, computed, of[of >= 0], moment[of >= 0])
            writer.write_table(pa.table({"row": row, "value": values}))
            if newest is not None:
                computed.forget(newest)
    return computed


def _values(
    aggregate: AggregateOptions, computed: _Computed, key: np.ndarray, moment: np.ndarray
) -> np.ndarray:
    prior = begin = None
    if computed.prior is not None:
        prior = computed.prior.totals_before(np.zeros_like(key), moment)
    if computed.segments is not None:
        begin = computed.segments.begin(key, moment)
    return feature_values(aggregate, computed.past, key, moment, prior, begin)


def _add_events(folder: Path, number: int, task: _Task, computed: _Computed) -> int | float | None:
    """Adds the events of a range; returns the newest time of its rows."""
    stored = _stored(task.aggregate)
    names = ["time", f"key{task.key}", _is_event(task.number)]
    names += [_part(task.number, name) for _, name in stored]
    time, keys, is_event, *columns = read_range(folder, _EVENTS, number, names)
    if not len(time):
        return None
    keyed = keys >= 0
    rows = of_all = is_event.astype(bool)
    if task.has_ids:
        ids = read_range(folder, _EVENTS, number, list(ID_COLUMNS))
        rows = first_events(rows & keyed, time, keys, ids)
        of_all = first_events(of_all, time, np.zeros_like(keys), ids)
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
