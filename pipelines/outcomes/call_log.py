"""The calls of a prediction log, by the time of their requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.outcomes.manifest import FileIndex, Index, Part
from pipelines.outcomes.periods import Periods
from pipelines.outcomes.row_times import RowTimes
from pipelines.prediction_log.log_folder import LogFolder

_WHEN = ["time", "model", "milliseconds", "state"]
_WHICH = [*_WHEN, "request_id", "version"]
_ALL = [*_WHICH, "label", "log"]


class Calls(NamedTuple):
    """Some calls.

    Attributes:
        table: The columns of the log.
        ticks: `(calls,)`, times of the requests.
        first: The number of the first call among those of the same files.
    """

    table: pa.RecordBatch
    ticks: np.ndarray
    first: int


@dataclass(frozen=True)
class CallLog:
    """The calls of one model in a log.

    The time of a request is that of its values, `as_of`, if a store completed it, else the time of
    its arrival.

    Args:
        folder: The log.
        model: The name of the model.
        times: The times of rows.
    """

    folder: LogFolder
    model: str
    times: RowTimes

    def index(self, known: Index, periods: Periods) -> Index:
        """What each file has; only files that have changed are read."""
        index: Index = {}
        for file in self.folder.files:
            size, modified = self.folder.storage.state(file)
            stamp = f"{size} {modified}"
            if size < 0:
                continue  # a server has deleted it
            if file in known and known[file].stamp == stamp:
                index[file] = known[file]
                continue
            counts: dict[int, int] = {}
            for calls in self._calls([file], _WHEN):
                parts, number = np.unique(periods.parts(calls.ticks), return_counts=True)
                for part, count in zip(parts.tolist(), number.tolist(), strict=True):
                    counts[part] = counts.get(part, 0) + count
            content = stamp.replace(" ", "-")
            index[file] = FileIndex(stamp, {p: Part(n, content) for p, n in counts.items()})
        return index

    def which(self, files: Sequence[str]) -> Iterator[Calls]:
        """The calls of some files, without their requests and answers."""
        return self._calls(files, _WHICH)

    def whole(self, files: Sequence[str]) -> Iterator[Calls]:
        """The calls of some files."""
        return self._calls(files, _ALL)

    def _calls(self, files: Sequence[str], columns: list[str]) -> Iterator[Calls]:
        first = 0
        for batch in replace(self.folder, files=tuple(files)).batches(columns):
            table = batch.filter(pc.equal(batch["model"], self.model))
            yield Calls(table, self._ticks(table), first)
            first += table.num_rows

    def _ticks(self, calls: pa.RecordBatch) -> np.ndarray:
        micros = calls["time"].cast(pa.int64()).to_numpy(zero_copy_only=False)
        waited = calls["milliseconds"].to_numpy(zero_copy_only=False)
        ticks = self.times.of_micros(micros - np.rint(1000 * waited).astype(np.int64))
        states = calls["state"].to_pylist() if "state" in calls.schema.names else ()
        for row, state in enumerate(states):
            as_of = self.times.of_text(json.loads(state)["as_of"]) if state else None
            if as_of is not None:
                ticks[row] = as_of
        return ticks
