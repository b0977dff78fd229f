"""Times: the one parser of the columns that order, divide or compare rows, and of single times.

A time is an integer or a finite float, whose unit only the user knows; a date; a timestamp of any
unit and zone; or ISO 8601 text, with or without a zone. Times without a zone are UTC. All times of
a column become numbers of one unit, its ticks, which are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serving.state.columns.arrow_kinds import is_text
from serving.state.errors import DataError

EXPECTED = (
    "integers, finite floats, dates, timestamps, or ISO 8601 text such as "
    "'2025-11-01 12:00:00+01:00'"
)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NAMES = {ticks: unit for unit, ticks in _UNITS.items()}
_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"
_ISO = rf"^{_DAY}({_CLOCK}{_ZONE}?)?$"
_INT64 = np.iinfo(np.int64)


def ticks_per_second(kind: pa.DataType) -> int | None:
    """Ticks of a second in a column of times; None for numbers, whose unit only the user knows."""
    if pa.types.is_timestamp(kind):
        return _UNITS[kind.unit]
    if is_text(kind):
        return _UNITS["ns"]
    return {pa.date32(): 1, pa.date64(): 10**3}.get(kind)


def check_time_type(kind: pa.DataType, name: str, key: str, where: str) -> None:
    """Checks that the type of a column may hold times.

    Args:
        kind: The type.
        name: The column.
        key: The key of the experiment that names it.
        where: The file.

    Raises:
        DataError: The type is of no times.
    """
    if not (_is_number(kind) or ticks_per_second(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"{where}: column {name!r} ({key}): expected times: {EXPECTED}. Received: the type "
            f"{kind}. Convert the column, or name another one."
        )


def to_ticks(column: pa.Array | pa.ChunkedArray, name: str, key: str, where: str) -> np.ndarray:
    """Times as int64, or as float64 if the column holds such numbers.

    Args:
        column: The times `(rows,)`.
        name: The column's name.
        key: The key of the experiment that names it.
        where: The file.

    Raises:
        DataError: A value is no time; the message names it.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    check_time_type(kind, name, key, where)

    def error(value: str, advice: str) -> DataError:
        return DataError(
            f"{where}: column {name!r} ({key}): expected a time in every row: {EXPECTED}. "
            f"Received: {value}. {advice}"
        )

    if column.null_count:
        raise error(
            f"{column.null_count} nulls", "A time must have no nulls: fill them, or drop the rows."
        )
    if pa.types.is_null(kind):  # without rows
        return np.zeros(0, np.int64)
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy()
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            advice = "A time must have no NaN: fill it, or drop the row."
            raise error(str(numbers[bad[0]]), advice)
        return numbers
    if is_text(kind):
        return _of_text(column.cast(pa.string()), error)
    if pa.types.is_date32(kind):
        column = column.cast(pa.timestamp("s"))
    try:
        return column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        largest = pc.max(column).as_py()
        raise error(f"{largest}, above the largest int64", "Store it in a larger unit.") from None


def time_words(kind: pa.DataType) -> str:
    """A time as `to_tick` takes it for a column of the type `kind`, for errors."""
    if ticks_per_second(kind) is None:
        return f"a number, as the log holds times ({kind})"
    return f"ISO 8601 text such as '2025-11-01T12:00:00', or a datetime: the log has {kind}"


def to_tick(value: Any, kind: pa.DataType, up: bool = False) -> int | float | None:
    """One time in ticks, as a column of the type `kind` would hold it.

    Args:
        value: A number within int64 for a column of numbers; else ISO 8601 text, a date or a
            datetime; also NumPy's.
        kind: The type of the column.
        up: Whether a time between two of the column's, such as noon for dates, becomes the later
            one. A row from a cut on is at that one or after it.

    Returns:
        None if the column holds no such times.
    """
    if isinstance(value, np.number):
        value = value.item()
    second = ticks_per_second(kind)
    if second is None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if not _INT64.min <= value <= _INT64.max:  # nor is NaN
            return None
        if pa.types.is_integer(kind) and isinstance(value, float):
            return -int(-value // 1) if up else int(value // 1)
        return value
    if isinstance(value, np.datetime64):
        value = str(value.astype("datetime64[ns]"))
    nanoseconds = _nanoseconds(value.isoformat() if hasattr(value, "isoformat") else value)
    if nanoseconds is None:
        return None
    step = 10**9 // second * (86_400 * second if pa.types.is_date(kind) else 1)
    steps = -(-nanoseconds // step) if up else nanoseconds // step
    return min(max(steps * step * second // 10**9, _INT64.min), _INT64.max)


def common_time_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds dates or timestamps of both types: of units the finest, of zones UTC."""
    zones = {kind.tz for kind in (one, other) if pa.types.is_timestamp(kind)} or {None}
    seconds = max(ticks_per_second(kind) or 1 for kind in (one, other))
    return pa.timestamp(_NAMES[seconds], zones.pop() if len(zones) == 1 else "UTC")


def shown_time(tick: int | float, kind: pa.DataType) -> int | float | str:
    """A time for messages and reports: a number as it is, else its date and second in UTC."""
    second = ticks_per_second(kind)
    if second is None:
        return tick
    if pa.types.is_date(kind):
        return str(np.datetime64(int(tick) // second, "s").astype("datetime64[D]"))
    zone = "+00:00" if is_text(kind) or kind.tz else ""
    return str(np.datetime64(int(tick) // second, "s")).replace("T", " ") + zone


def exact_time(tick: int | float, kind: pa.DataType) -> str:
    """A time as text that `read_exact_time` reads: a number, or ISO 8601 text of all its ticks."""
    second = ticks_per_second(kind)
    if second is None:
        return str(tick)
    if pa.types.is_date(kind):
        return str(shown_time(tick, kind))
    zone = "Z" if is_text(kind) or kind.tz else ""
    return str(np.array(tick, f"datetime64[{_NAMES[second]}]")) + zone


def read_exact_time(text: str, kind: pa.DataType) -> int | float | None:
    """A time in ticks from the text of `exact_time`; None if it is none."""
    if ticks_per_second(kind) is not None:
        return to_tick(text, kind)
    try:
        return int(text) if pa.types.is_integer(kind) else float(text)
    except ValueError:
        return None


def _of_text(
    texts: pa.Array | pa.ChunkedArray, error: Callable[[str, str], DataError]
) -> np.ndarray:
    """ISO text as nanoseconds since 1970."""
    matches = pc.match_substring_regex(texts, _ISO)
    index = pc.index(matches, False).as_py()
    if index >= 0:
        text = texts[index].as_py()
        is_number = re.fullmatch(r"\s*[+-]?\d+([.,]\d+)?\s*", text) is not None
        advice = "Store a number as a number." if is_number else "Convert it."
        raise error(repr(text), advice)
    zoned = pc.match_substring_regex(texts, rf"{_CLOCK}{_ZONE}$")
    clock = pc.greater(pc.binary_length(texts), len("2025-11-01"))
    ends = pc.if_else(clock, pc.if_else(zoned, "", "Z"), "T00:00Z")
    whole = pc.binary_join_element_wise(texts, ends, "")
    try:
        return whole.cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        text = next(filter(_fails, texts.to_pylist()), texts[0].as_py())
        raise error(repr(text), "No such time is from 1677 to 2262; correct it.") from None


def _fails(text: str) -> bool:
    """Whether a text of the ISO form is no time of the years of `timestamp[ns]`."""
    nanoseconds = _nanoseconds(text)
    return nanoseconds is None or not _INT64.min <= nanoseconds <= _INT64.max


def _nanoseconds(text: Any) -> int | None:
    """Nanoseconds since 1970 of ISO text; None if it is none."""
    if not isinstance(text, str) or re.fullmatch(_ISO, text, re.ASCII) is None:
        return None
    fraction = re.search(r"\.(\d+)", text)
    digits = fraction[1] if fraction else ""
    try:
        time = datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    except ValueError:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + int(digits.ljust(9, "0"))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def hour_and_weekday(seconds: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Hour of the day (0 to 23) and day of the week (0 = Monday) of Unix seconds, in UTC."""
    moment = seconds.cast(pa.timestamp("s"))
    return pc.hour(moment), pc.day_of_week(moment)
