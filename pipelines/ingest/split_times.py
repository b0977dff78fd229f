"""Times that rows are divided by: of requests, and the cuts of an experiment file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.common.times import ticks_per_second, to_tick, to_ticks
from pipelines.ingest.split_options import Cut
from pipelines.storage.columns import require_column

KEY = "data.split.column"


def request_times(table: pa.Table, column: str, starts: np.ndarray, where: str) -> np.ndarray:
    """The earliest time of each request, in the ticks of the column.

    Args:
        table: Whole requests.
        column: The times.
        starts: First row of each request.
        where: Name of the file, for errors.
    """
    require_column(table.column_names, column, KEY, where)
    times = to_ticks(table[column], column, KEY, where)
    return np.minimum.reduceat(times, starts) if len(starts) else times


def cuts(valid_from: Cut, test_from: Cut, column: str, kind: pa.DataType, where: str) -> np.ndarray:
    """The first time of validation and of test, as `request_times` gives times.

    Raises:
        PipelineError: A cut is no time like those of the column, or they are in the wrong order.
    """
    ticks = []
    for key, cut in (("valid_from", valid_from), ("test_from", test_from)):
        tick = to_tick(cut, kind, up=True)
        if tick is None:
            is_number = ticks_per_second(kind) is None
            example = "2025-11-01 or 2025-11-01T12:00:00"
            expected = "a number" if is_number else f"a date or a time, such as {example}"
            raise PipelineError(
                f"`data.split.{key}`: expected {expected}, as {column!r} of {where} holds {kind}. "
                f"Received: {cut!r}."
            )
        ticks.append(tick)
    if not ticks[0] < ticks[1]:
        raise PipelineError(
            "`data.split.valid_from` must be before `data.split.test_from`. Received: "
            f"{valid_from!r} and {test_from!r}."
        )
    return np.array(ticks)
