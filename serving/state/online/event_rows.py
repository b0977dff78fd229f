"""Events as rows of the log: by column name, or as tables of other types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.times import is_text, time_words, to_tick
from serving.state.errors import DataError, require_column

_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)  # of a value's type


def rows_of(
    events: Sequence[Mapping[str, Any]],
    columns: pa.Schema,
    times: Iterable[str],
    of: str = "event",
) -> pa.Table:
    """Returns some columns of events, in the types of the log; others are ignored.

    Args:
        events: Values by column name, None where the log has null.
        columns: Names and types of the columns.
        times: Columns that hold the times of the events.
        of: One of them in words, for errors.

    Raises:
        DataError: An event lacks a column, or has a value of another type.
    """
    arrays = {}
    for name, kind in zip(columns.names, columns.types, strict=True):
        for number, event in enumerate(events):
            require_column(event, name, "a column of the state", f"{of} {number}")
        read = _times if name in times else _values
        arrays[name] = read([event[name] for event in events], kind, name, of)
    return pa.table(arrays, schema=columns)


def rows_of_table(table: pa.Table, columns: pa.Schema, where: str) -> pa.Table:
    """Returns some columns of a table, in the types of the log.

    Raises:
        DataError: A column is missing, or its values do not fit the log's type.
    """
    arrays = []
    for name, kind in zip(columns.names, columns.types, strict=True):
        require_column(table.column_names, name, "a column of the state", where)
        try:
            arrays.append(table[name].cast(kind))
        except pa.ArrowException as error:
            raise DataError(
                f"{where}: column {name!r}: expected {kind}, as in the log. Received: "
                f"{table[name].type} ({error})."
            ) from None
    return pa.table(arrays, schema=columns)


def read_time(value: Any, kind: pa.DataType, where: str) -> int | float:
    """Returns one time in the ticks of a column of times.

    Raises:
        DataError: The column holds no such times.
    """
    tick = to_tick(value, kind)
    if tick is None:
        raise DataError(f"{where}: expected {time_words(kind)}. Received: {value!r}.")
    return tick


def _times(values: Sequence[Any], kind: pa.DataType, name: str, of: str) -> pa.Array:
    ticks = np.array(
        [
            read_time(value, kind, f"{of} {number}: column {name!r}")
            for number, value in enumerate(values)
        ],
        None if values else np.int64,
    )
    if is_text(kind):
        return pa.array(list(map(str, values)), kind)
    if pa.types.is_date32(kind):
        return pa.array(ticks // 86_400, pa.int32()).cast(kind)
    return pa.array(ticks, pa.int64()) if pa.types.is_integer(kind) else pa.array(ticks).cast(kind)


def _values(values: Sequence[Any], kind: pa.DataType, name: str, of: str) -> pa.Array:
    try:
        return pa.array([_plain(value, kind) for value in values], kind)
    except _WRONG:  # the first that fails says so
        return pa.concat_arrays(
            [_value(value, kind, f"{of} {n}: column {name!r}") for n, value in enumerate(values)]
        )


def _value(value: Any, kind: pa.DataType, where: str) -> pa.Array:
    try:
        return pa.array([_plain(value, kind)], kind)
    except _WRONG as error:
        expected = "0, 1, a boolean or null" if pa.types.is_boolean(kind) else kind
        raise DataError(
            f"{where}: expected {expected}, as in the log. Received: {value!r}."
        ) from error


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Returns a label as a value of its column's type: 1 for true, or true for 1."""
    if pa.types.is_boolean(kind):
        return bool(value) if value in (0, 1) else value
    return int(value) if isinstance(value, bool | np.bool_) and is_number(kind) else value
