"""Durations: texts such as "7d" for dates and timestamps, numbers for times that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from serving.state.columns.times import ticks_per_second
from serving.state.errors import DataError

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


def check_unit(value: Duration | None, key: str, time: str, kind: pa.DataType, where: str) -> None:
    """Checks that a duration is a number for times that are numbers, and a text for others.

    Args:
        value: The duration; None: there is none.
        key: Its key, for the error.
        time: The column of the times.
        kind: Its type.
        where: The file.

    Raises:
        DataError: It is not.
    """
    if value is None or pa.types.is_null(kind):
        return
    holds_numbers = ticks_per_second(kind) is None
    if isinstance(value, str) == holds_numbers:
        advice = "a number in its unit, such as 604_800" if holds_numbers else "a text such as '7d'"
        raise DataError(
            f"{where}: {key}: the column {time!r} holds {kind}, so give {advice}. Received: "
            f"{value!r}."
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
