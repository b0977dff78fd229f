"""Makes the file of one hour of served rows."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import atomic_file
from pipelines.features import FittedFeatures
from pipelines.outcomes.attribution import RowKeys, attribute
from pipelines.outcomes.call_log import CallLog
from pipelines.outcomes.decoded_calls import Call, CallDecoder, CallRequests
from pipelines.outcomes.hour_calls import HourCalls
from pipelines.outcomes.layout import Layout
from pipelines.outcomes.outcome_files import TICK
from pipelines.outcomes.outcome_parts import OutcomeParts
from pipelines.outcomes.periods import HOUR, hour_name
from pipelines.outcomes.scratch_rows import ScratchRows
from pipelines.outcomes.served_rows import Rows, rows_of

_AT_ONCE = 64  # calls that become rows together
_ROW_GROUP = 65_536


class HourTask(NamedTuple):
    """An hour to make.

    Attributes:
        hour: Its number.
        files: The files of the log with calls of the hour, or of the window before it.
        later: Those with calls of the window after it, to which outcomes may belong.
    """

    hour: int
    files: tuple[str, ...]
    later: tuple[str, ...]


@dataclass(frozen=True)
class Hour:
    """What the manifest says of an hour.

    Attributes:
        calls, requests, rows: Numbers of them.
        positives: Rows with a label of 1, by label.
        outcomes: Outcomes at a time of the hour.
        matched: Outcomes that belong to rows of the hour, by the hour of their own time.
        repeated: Calls that were left out, as the same version has logged their request before.
        left_out: Calls that do not fit the schema of the run, by reason.
        sampling_rate: Share of the requests that the log has.
    """

    calls: int
    requests: int
    rows: int
    positives: dict[str, int]
    outcomes: int
    matched: dict[str, int]
    repeated: int
    left_out: dict[str, int]
    sampling_rate: float | None


@dataclass(frozen=True)
class HourMaker:
    """What all hours have in common; it goes to workers.

    Args:
        target: The folder of rows.
        log: The log.
        layout: The columns of rows.
        outcomes: The outcomes.
        by: The columns that name the row of an outcome.
        features: Folder of the fitted transforms.
        grouped: Whether consecutive rows with the same context are one request.
    """

    target: Path
    log: CallLog
    layout: Layout
    outcomes: OutcomeParts
    by: tuple[str, ...]
    features: Path
    grouped: bool

    @contextmanager
    def opened(self) -> Iterator[Callable[[HourTask], dict[str, Any]]]:
        """The function that makes an hour, and returns what the manifest says of it."""
        fitted = FittedFeatures.load(self.features)
        yield lambda task: asdict(self._made(task, fitted))

    def _made(self, task: HourTask, fitted: FittedFeatures) -> Hour:
        periods, layout = self.outcomes.periods, self.layout
        begin, end = (hour * HOUR * periods.per_second for hour in (task.hour, task.hour + 1))
        calls = HourCalls.find(self.log, task.files, begin, end, periods.window_ticks)
        decoder = CallDecoder(layout, fitted, self.grouped, begin, end)
        with tempfile.TemporaryDirectory(dir=self.outcomes.folder) as folder:
            stored = _Stored(ScratchRows(Path(folder) / "rows.arrow", layout.schema))
            with stored.rows:
                for rows in _rows(calls.read(), decoder, fitted):
                    stored.add(rows, self._keys(rows))
            outcomes = self.outcomes.read([*periods.of_hour(task.hour), *periods.after(task.hour)])
            labels, matched = self._labels(task, stored.keys, outcomes, fitted)
            self._write(task.hour, stored, labels)
        count = len(calls.numbers)
        return Hour(
            calls=count,
            requests=stored.requests,
            rows=len(labels),
            positives=dict(zip(layout.labels, labels.sum(axis=0).tolist(), strict=True)),
            outcomes=0 if outcomes is None else int((outcomes[TICK].to_numpy() < end).sum()),
            matched=matched,
            repeated=calls.repeated,
            left_out=dict(sorted(decoder.left_out.items())),
            sampling_rate=decoder.sampling_rate,
        )

    def _keys(self, rows: Rows) -> RowKeys:
        columns = {
            name: rows.names if name == self.layout.request else rows.table[name]
            for name in self.by
        }
        return RowKeys(pa.table(columns), rows.ticks, rows.versions)

    def _labels(
        self,
        task: HourTask,
        keys: Sequence[RowKeys],
        outcomes: pa.Table | None,
        fitted: FittedFeatures,
    ) -> tuple[np.ndarray, dict[str, int]]:
        """The labels `(rows, labels)`, and the number of outcomes by hour that belong to rows."""
        rows, names = sum(len(one.ticks) for one in keys), self.layout.labels
        if not rows or outcomes is None:
            return np.zeros((rows, len(names)), np.int8), {}
        periods, of_request = self.outcomes.periods, self.layout.request in self.by
        later = [] if of_request else self._later(task, fitted)
        labels, belongs = attribute(
            RowKeys.concat(keys),
            outcomes,
            names,
            periods.window_ticks,
            of_request,
            RowKeys.concat(later) if later else None,
        )
        hours = periods.hours(outcomes[TICK].to_numpy()[belongs])
        counts = Counter(map(hour_name, hours.tolist()))
        return labels, dict(sorted(counts.items()))

    def _later(self, task: HourTask, fitted: FittedFeatures) -> list[RowKeys]:
        """The rows of the window after the hour."""
        periods = self.outcomes.periods
        begin = (task.hour + 1) * HOUR * periods.per_second
        end = begin + periods.window_ticks
        calls = HourCalls.find(self.log, task.later, begin, end, periods.window_ticks)
        decoder = CallDecoder(self.layout, fitted, self.grouped, begin, end)
        return [self._keys(rows) for rows in _rows(calls.read(), decoder, fitted)]

    def _write(self, hour: int, stored: _Stored, labels: np.ndarray) -> None:
        """Writes the rows in the order of their requests' times."""
        order = stored.order()
        target = self.target / f"{hour_name(hour)}.parquet"
        schema, done = self.layout.schema, 0
        with atomic_file(target) as temporary:
            with pq.ParquetWriter(temporary, schema, compression="zstd") as file:
                for table in stored.rows.read(order, _ROW_GROUP):
                    of_rows = labels[order[done : done + table.num_rows]]
                    for name, column in zip(self.layout.labels, of_rows.T, strict=True):
                        place = schema.get_field_index(name)
                        table = table.set_column(place, schema.field(place), pa.array(column))
                    file.write_table(table)
                    done += table.num_rows
            with temporary.open("rb") as written:
                os.fsync(written.fileno())


class _Stored:
    """The rows of an hour on disk, and in memory what decides their labels and their order.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: ScratchRows) -> None:
        self.rows = rows
        self.keys: list[RowKeys] = []
        self.requests = 0
        self._sizes: list[np.ndarray] = []
        self._places: list[np.ndarray] = []

    def add(self, rows: Rows, keys: RowKeys) -> None:
        """Adds the rows of some calls."""
        self.rows.add(rows.table)
        self.keys.append(keys)
        self.requests += rows.requests
        self._sizes.append(rows.sizes)
        self._places.append(rows.places)

    def order(self) -> np.ndarray:
        """The numbers of the rows, in the order of time."""
        if not self._sizes:
            return np.zeros(0, np.int64)
        sizes, places = np.concatenate(self._sizes), np.concatenate(self._places)
        place_of_row = np.repeat(places, sizes)
        return np.argsort(place_of_row, kind="stable")


def _rows(calls: Iterable[Call], decoder: CallDecoder, fitted: FittedFeatures) -> Iterator[Rows]:
    """The rows of calls, of a few at a time."""
    decoded: Iterator[CallRequests] = decoder.decode(calls)
    while some := list(islice(decoded, _AT_ONCE)):
        yield rows_of(some, decoder.layout, fitted)
