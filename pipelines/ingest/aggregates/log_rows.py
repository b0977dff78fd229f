"""Single rows by column name, as the log of the aggregates would hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.common.arrow_kinds import is_number
from pipelines.common.errors import PipelineError
from pipelines.common.times import is_text, to_tick
from pipelines.ingest.aggregates.aggregate_state import AggregateState
from pipelines.storage.columns import require_column


def read_rows(
    rows: Sequence[Mapping[str, Any]], names: Iterable[str], state: AggregateState
) -> pa.Table:
    """Returns columns of some rows, in the types of the log.

    Raises:
        PipelineError: A row lacks a column, or has a value of another type.
    """
    columns, roles = {}, state.roles
    for name in names:
        where = f"column {name!r} ({roles[name]})"
        for number, row in enumerate(rows):
            require_column(row, name, roles[name], f"row {number}")
        values, kind = [row[name] for row in rows], state.columns.field(name).type
        read = _times if name == state.time else _values
        columns[name] = read(values, kind, where)
    return pa.table(columns)


def read_time(value: Any, kind: pa.DataType, where: str) -> int | float:
    """Returns one time in the ticks of a column of times.

    Raises:
        PipelineError: The column holds no such times.
    """
    tick = to_tick(value, kind)
    if tick is None:
        raise PipelineError(
            f"{where}: expected a time such as the log holds, whose type is {kind}. Received: "
            f"{value!r}."
        )
    return tick


def _times(values: Sequence[Any], kind: pa.DataType, where: str) -> pa.Array:
    ticks = np.array([read_time(value, kind, where) for value in values])
    if is_text(kind):
        return pa.array(list(map(str, values)), kind)
    if pa.types.is_date32(kind):
        return pa.array(ticks // 86_400, pa.int32()).cast(kind)
    return pa.array(ticks, pa.int64()) if pa.types.is_integer(kind) else pa.array(ticks).cast(kind)


def _values(values: Sequence[Any], kind: pa.DataType, where: str) -> pa.Array:
    try:
        return pa.array([_plain(value, kind) for value in values], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if len(values) > 1:
            for value in values:  # finds the first that fails
                _values([value], kind, where)
        expected = "0, 1, a boolean or null" if pa.types.is_boolean(kind) else kind
        raise PipelineError(
            f"{where}: expected {expected}, as in the log. Received: {values[0]!r}."
        ) from error


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Returns a label as a value of its column's type: 1 for true, or true for 1."""
    if pa.types.is_boolean(kind):
        return bool(value) if value in (0, 1) else value
    return int(value) if isinstance(value, bool | np.bool_) and is_number(kind) else value
