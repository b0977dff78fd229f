"""Durations: texts such as "7d" for dates and timestamps, numbers for times that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Duration = str | float


def check_durations(durations: Iterable[tuple[str, Duration | None]]) -> None:
    """Checks that durations, by key, are a number with its unit, or a positive number.

    Raises:
        ValueError: One is not; the message names its key.
    """
    for key, value in durations:
        if not _is_duration(value):
            raise ValueError(
                f"`{key}` must be a whole number with its unit (s, m, h, d or w), such as "
                f"'7d', or a positive number if `time` holds numbers. Received: {value!r}"
            )


def in_ticks(value: Duration, ticks: int | None) -> int | float:
    """A duration in the unit of a column of times.

    Args:
        value: The duration.
        ticks: Units of a second; None: the column holds numbers.
    """
    if isinstance(value, str):
        return int(value[:-1]) * SECONDS[value[-1]] * (ticks or 1)
    return int(value) if value == int(value) else value


def _is_duration(value: Duration | None) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"[1-9][0-9]*[smhdw]", value) is not None
    return value is None or value > 0
