"""The calls of an hour, in the order of their times, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.outcomes.call_log import CallLog
from pipelines.outcomes.decoded_calls import Call, Tick

_COLUMNS = ("time", "request_id", "version")


@dataclass(frozen=True)
class HourCalls:
    """The calls between two times.

    Attributes:
        log: The log.
        files: The files that have them.
        numbers: `(calls,)`, of each call its place among all calls of the files, ascending.
        places: `(calls,)`, its place in the order of time.
        is_again: `(calls,)`, whether another version has answered the same request before.
        repeated: Calls that were left out, as the same version has logged their request before.
    """

    log: CallLog
    files: tuple[str, ...]
    numbers: np.ndarray
    places: np.ndarray
    is_again: np.ndarray
    repeated: int

    @classmethod
    def find(
        cls, log: CallLog, files: Sequence[str], begin: Tick, end: Tick, window: int
    ) -> HourCalls:
        """Finds the calls.

        Args:
            log: The log.
            files: The files that have calls of this time, or of the window before.
            begin, end: The first time, and the first that is too late.
            window: Ticks before a call in which the same request counts as the same.
        """
        tables, ticks, numbers = [], [], []
        for calls in log.which(files):
            near = (calls.ticks >= begin - window) & (calls.ticks < end)
            tables.append(calls.table.select(_COLUMNS).filter(pa.array(near)))
            ticks.append(calls.ticks[near])
            numbers.append(calls.first + np.flatnonzero(near))
        if not tables:
            none = np.zeros(0, np.int64)
            return cls(log, tuple(files), none, none, none.astype(bool), 0)
        tick, number = np.concatenate(ticks), np.concatenate(numbers)
        table = pa.Table.from_batches(tables).append_column("tick", pa.array(tick))
        keys = [(name, "ascending") for name in ("tick", *_COLUMNS)]
        by_time = pc.sort_indices(table, sort_keys=keys).to_numpy()
        table, tick, number = table.take(pa.array(by_time)), tick[by_time], number[by_time]
        request = table["request_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        version = np.unique(table["version"].to_numpy(), return_inverse=True)[1]
        both = np.unique(request * (version.max(initial=0) + 1) + version, return_inverse=True)[1]
        is_repeat = _is_after_equal(both, tick, window)
        is_inside = tick >= begin
        chosen = np.flatnonzero(is_inside & ~is_repeat)
        is_again = _is_after_equal(request, tick, window)[chosen]
        back = np.argsort(number[chosen])  # in the order of the files
        return cls(
            log,
            tuple(files),
            number[chosen][back],
            back,
            is_again[back],
            int((is_inside & is_repeat).sum()),
        )

    def read(self) -> Iterator[Call]:
        """The calls, in the order of the files.

        Raises:
            PipelineError: A server has deleted one of the files.
        """
        done = 0
        for calls in self.log.whole(self.files):
            last = np.searchsorted(self.numbers, calls.first + calls.table.num_rows)
            rows = self.numbers[done:last] - calls.first
            values = calls.table.take(pa.array(rows)).to_pylist()
            columns = (calls.ticks[rows], self.places[done:last], self.is_again[done:last])
            yield from map(Call, values, *(column.tolist() for column in columns))
            done = int(last)
        if done < len(self.numbers):
            raise PipelineError(
                f"{self.log.folder.storage.name}: a file was deleted while it was read. Run the "
                "same command again."
            )


def _is_after_equal(codes: np.ndarray, ticks: np.ndarray, window: int) -> np.ndarray:
    """Whether the same code is at most a window before each place, in the order of time."""
    order = np.argsort(codes, kind="stable")
    codes, ticks = codes[order], ticks[order]
    after = np.zeros(len(codes), bool)
    after[order[1:]] = (codes[1:] == codes[:-1]) & (ticks[1:] - ticks[:-1] <= window)
    return after
