"""The times of a market's requests: even within an hour, by the shares of the hours in a day."""

from __future__ import annotations

import numpy as np

from pipelines.ingest.simulate.world import START

HOUR, DAY = 3_600, 86_400
LOG_START = START + -START % DAY  # the first midnight
_STEPS = (3_600, 600, 60, 10, 1)  # seconds, which divide an hour


class Timeline:
    """Numbers the requests of days in order of time.

    Args:
        per_day: Requests of a day.
        hour_share: Share of the requests in each hour `(24,)`.
        most: Requests of a step, if it is longer than a second.

    Attributes:
        step: The seconds whose requests are drawn together.
    """

    def __init__(self, per_day: float, hour_share: np.ndarray, most: int) -> None:
        self._per_day = per_day
        self._hour_share = hour_share
        self._before = np.cumsum(hour_share) - hour_share
        per_second = per_day * hour_share.max() / HOUR
        fitting = (step for step in _STEPS if per_second * step <= most)
        self.step = next(fitting, 1)

    def requests_before(self, time: int) -> int:
        """The number of the first request at a time or later."""
        day, second = divmod(time - LOG_START, DAY)
        hour, within = divmod(second, HOUR)
        share = self._before[hour] + self._hour_share[hour] * within / HOUR
        return round(self._per_day * (day + float(share)))

    def times(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and times of the requests in the step from `start`."""
        first, last = self.requests_before(start), self.requests_before(start + self.step)
        number = np.arange(first, last)
        return number, start + (number - first) * self.step // max(1, last - first)

    def time_of(self, number: int) -> int:
        """The time of a request."""
        low, high = 0, 1 + int(number / self._per_day + 2) * DAY // self.step
        while high - low > 1:
            middle = (low + high) // 2
            before = self.requests_before(LOG_START + middle * self.step) <= number
            low, high = (middle, high) if before else (low, middle)
        numbers, times = self.times(LOG_START + low * self.step)
        return int(times[number - numbers[0]])
