"""Hours of rows, and the parts of hours by which files are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

HOUR = 3600


@dataclass(frozen=True)
class Periods:
    """The hours of a join, divided so that the window is a whole number of parts.

    Args:
        window: Seconds after a request in which an outcome belongs to it.
        per_second: Ticks of a second.
    """

    window: int
    per_second: int

    @property
    def window_ticks(self) -> int:
        """The window in ticks."""
        return self.window * self.per_second

    @property
    def part(self) -> int:
        """Seconds of a part."""
        return math.gcd(HOUR, self.window)

    def parts(self, ticks: np.ndarray) -> np.ndarray:
        """The number of the part of each time, from 1970 on."""
        return np.floor_divide(ticks, self.part * self.per_second).astype(np.int64)

    def hours(self, ticks: np.ndarray) -> np.ndarray:
        """The number of the hour of each time."""
        return np.floor_divide(ticks, HOUR * self.per_second).astype(np.int64)

    def hour_of(self, part: int) -> int:
        """The hour of a part."""
        return part * self.part // HOUR

    def of_hour(self, hour: int) -> range:
        """The parts of an hour."""
        return range(hour * HOUR // self.part, (hour + 1) * HOUR // self.part)

    def before(self, hour: int) -> range:
        """The parts of the window before an hour."""
        start = self.of_hour(hour).start
        return range(start - self.window // self.part, start)

    def after(self, hour: int) -> range:
        """The parts of the window after an hour."""
        stop = self.of_hour(hour).stop
        return range(stop, stop + self.window // self.part)


def hour_name(hour: int) -> str:
    """The name of an hour in UTC.

    >>> hour_name(490_000)
    '2025-11-24T16'
    """
    return datetime.fromtimestamp(hour * HOUR, UTC).strftime("%Y-%m-%dT%H")


def hour_number(name: str) -> int:
    """The hour of a name."""
    return int(datetime.fromisoformat(f"{name}:00+00:00").timestamp()) // HOUR
