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
from pipelines.common.times import to_ticks
from pipelines.engines.base import Engine
from pipelines.ingest.aggregates.aggregate_options import AggregateOptions, check_aggregates
from pipelines.ingest.aggregates.aggregate_state import AggregateState, adds
from pipelines.ingest.aggregates.measures import PARTS
from pipelines.ingest.aggregates.past import Past
from pipelines.ingest.aggregates.spill import Spill, read_range
from pipelines.ingest.source import Columns, Source, SourceFile
from pipelines.ingest.splitter import file_chunks, request_runs
from pipelines.storage.columns import require_column

RANGE_ROWS = 262_144  # about 30 MB
_MOST_RANGES = 64  # each is two open files
_SAMPLED = 256  # one time in so many is enough to divide them
_ROWS, _EVENTS = "rows", "events"


def with_aggregates(
    source: Source, aggregates: Sequence[AggregateOptions], engine: Engine, folder: Path
) -> tuple[Source, AggregateState]:
    """The source with the aggregates as float32 columns, and the state after its last row.

    Args:
        source: Files that `check_aggregates` has accepted.
        aggregates: At least one.
        engine: Computes each aggregate as a task, in any process that sees `folder`.
        folder: An empty folder for temporary files; the source reads them until the end.
    """
    lengths, bounds = _scan(source, aggregates[0].time)
    with Spill(folder, bounds) as spill:
        state = _spilled(source, aggregates, spill)
    tasks = [
        _Task(number, aggregate, past, prior, list(state.codes).index(aggregate.keys))
        for number, (aggregate, past, prior) in enumerate(
            zip(state.aggregates, state.pasts, state.priors, strict=True)
        )
    ]
    columns: dict[str, np.ndarray] = {}
    work = partial(_computing, folder, len(bounds) + 1)
    with contextlib.closing(engine.map_ordered(work, tasks)) as results:
        for task, (past, prior) in zip(tasks, results, strict=True):
            state.pasts[task.number], state.priors[task.number] = past, prior
            columns[task.aggregate.name] = _in_order(folder, task.number, sum(lengths))
    return _with_columns(source, lengths, columns), state


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
    source: Source, aggregates: Sequence[AggregateOptions], spill: Spill
) -> AggregateState:
    """Writes what the aggregates need of each row; returns the state with the keys, numbered."""
    names = {source.request, *(name for aggregate in aggregates for name in aggregate.columns)}
    columns = frozenset(name for name in names if name is not None)
    state: AggregateState | None = None
    row = 0
    for file in _files(source):
        first_row = row
        for table in filter(len, file_chunks(source, file, columns)):
            check_aggregates(table.schema, aggregates, file.where)
            state = state or AggregateState.empty(aggregates, table.schema)
            time = state.times(table, file.where)
            starts, lengths = request_runs(table, source.request)
            moment = np.repeat(np.minimum.reduceat(time, starts), lengths)
            keys = {f"key{i}": codes for i, codes in enumerate(state.keys(table).values())}
            rows = {"row": np.arange(row, row + table.num_rows), "moment": moment, **keys}
            spill.add(_ROWS, moment, rows)
            events = {"time": time, **keys}
            measured = state.measured(table, file.where, row - first_row)
            for number, (is_event, parts) in enumerate(measured):
                events[_is_event(number)] = is_event
                for place, name in _stored(aggregates[number]):
                    events[_part(number, name)] = parts[:, place]
            spill.add(_EVENTS, time, events)
            newest = time.max().item()
            state.newest = newest if state.newest is None else max(state.newest, newest)
            row += table.num_rows
    if state is None:
        raise PipelineError("data.aggregates: the source holds no rows; expected a file with rows.")
    for aggregate, past in zip(state.aggregates, state.pasts, strict=True):
        past.grow(len(state.codes[aggregate.keys]))
    return state


@dataclasses.dataclass(frozen=True)
class _Task:
    """One aggregate, before the first event."""

    number: int
    aggregate: AggregateOptions
    past: Past
    prior: Past | None
    key: int  # number of its key's column


@contextlib.contextmanager
def _computing(folder: Path, ranges: int) -> Iterator[Callable[[_Task], tuple[Past, Past | None]]]:
    """Yields a function from a task to its aggregate's past after the last event."""
    yield partial(_compute, folder, ranges)


def _compute(folder: Path, ranges: int, task: _Task) -> tuple[Past, Past | None]:
    """Writes the numbers of the rows and their values, range by range."""
    past, prior, key = task.past, task.prior, f"key{task.key}"
    schema = pa.schema({"row": pa.int64(), "value": pa.float32()})
    with (
        pa.OSFile(str(_result(folder, task.number)), "wb") as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):
        for number in range(ranges):
            keys, time, parts, newest = _events(folder, number, task, key)
            keyed = keys >= 0
            past.add(keys[keyed], time[keyed], parts[keyed])
            row, moment, of = read_range(folder, _ROWS, number, ["row", "moment", key])
            shared = None
            if prior is not None:
                prior.add(np.zeros_like(keys), time, parts)
                shared = prior.totals_before(np.zeros_like(of), moment)[of >= 0]
            values = np.full(len(row), np.nan)
            values[of >= 0] = past.values(of[of >= 0], moment[of >= 0], shared)
            writer.write_table(pa.table({"row": row, "value": values.astype(np.float32)}))
            for kept_events in (past, prior) if newest is not None else ():
                if kept_events is not None:
                    kept_events.forget(newest)
    return past, prior


def _events(
    folder: Path, number: int, task: _Task, key: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int | float | None]:
    """Key (-1 if null), time and parts of the events of a range; the newest time of its rows."""
    stored = _stored(task.aggregate)
    names = ["time", key, _is_event(task.number), *(_part(task.number, n) for _, n in stored)]
    time, keys, is_event, *columns = read_range(folder, _EVENTS, number, names)
    rows = is_event.astype(bool)
    parts = np.ones((int(rows.sum()), len(PARTS[task.aggregate.kind])), np.int64)
    for (place, _), column in zip(stored, columns, strict=True):
        parts[:, place] = column[rows]
    return keys[rows], time[rows], parts, time.max().item() if len(time) else None


def _stored(aggregate: AggregateOptions) -> list[tuple[int, str]]:
    """The parts that are not 1 in every event."""
    return list(enumerate(PARTS[aggregate.kind]))[int(adds(aggregate)) :]


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
