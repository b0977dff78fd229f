"""The times of served rows, in the type of the training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from serving.state.columns.arrow_kinds import is_text
from serving.state.columns.times import (
    check_time_type,
    exact_time,
    read_exact_time,
    ticks_per_second,
    to_ticks,
)
from serving.state.errors import DataError

SERVED_AT = "served_at"
ANSWERED = pa.timestamp("us", "UTC")
_MICROS = 10**6
_DAY = 86_400
_LAST = 2**33  # seconds since 1970: a later time is none of a request


@dataclass(frozen=True)
class RowTimes:
    """The column of the times of requests, and the conversions to its ticks.

    Args:
        name: The column; in rows that have no such time, `served_at`.
        kind: Its type.
        per_second: Ticks of a second.
    """

    name: str = SERVED_AT
    kind: pa.DataType = ANSWERED
    per_second: int = _MICROS

    def of_micros(self, micros: np.ndarray) -> np.ndarray:
        """Microseconds since 1970 as ticks: int64, or float64 if the column holds such numbers."""
        if pa.types.is_floating(self.kind):
            return micros / _MICROS * self.per_second
        return self._in_steps(micros, _MICROS)

    def of_text(self, text: str) -> int | float | None:
        """The ticks of a logged `as_of`; None if it is no such time."""
        tick = read_exact_time(text, self.kind)
        return tick if tick is not None and 0 <= tick < _LAST * self.per_second else None

    def of_column(self, column: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
        """The ticks of the times of outcomes, whose unit may be another.

        Args:
            column: The times.
            name: Their column.
            where: The file, for errors.

        Raises:
            DataError: They are no times, or numbers where requests have none, or the reverse.
        """
        check_time_type(column.type, name, "the time of an outcome", where)
        unit, unit_here = ticks_per_second(column.type), ticks_per_second(self.kind)
        is_null = pa.types.is_null(column.type)
        if (unit is None) != (unit_here is None) and not is_null:
            raise DataError(
                f"{where}: column {name!r}: expected times as the requests have them "
                f"({self.kind}). Received: {column.type}. Convert the column."
            )
        ticks = to_ticks(column, name, "the time of an outcome", where)
        if unit is None:
            return ticks.astype(np.float64 if pa.types.is_floating(self.kind) else np.int64)
        return self._in_steps(ticks, unit)

    def column(self, ticks: np.ndarray) -> pa.Array:
        """Ticks as values of the column."""
        if is_text(self.kind):
            times, place = np.unique(ticks, return_inverse=True)
            texts = pa.array([exact_time(int(tick), self.kind) for tick in times], self.kind)
            return texts.take(pa.array(place))
        if pa.types.is_date32(self.kind):
            return pa.array(ticks // _DAY, pa.int32()).cast(self.kind)
        return pa.array(ticks).cast(self.kind)

    def _in_steps(self, ticks: np.ndarray, unit: int) -> np.ndarray:
        """Ticks of another unit, rounded down to those that the column can hold."""
        here = self.per_second
        ticks = ticks * (here // unit) if here >= unit else ticks // (unit // here)
        step = _DAY * here if pa.types.is_date(self.kind) else 1
        return ticks // step * step
