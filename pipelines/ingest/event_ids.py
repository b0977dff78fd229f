"""Ids of events: rows of equal id, key and time are one event, which counts once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import is_missing
from serving.state.errors import require_column
from serving.state.past.measures import identities
from serving.state.past.repeats import event_numbers, is_first

ID_COLUMNS = ("id", "more of id", "has id")


def event_ids(table: pa.Table, column: str, where: str) -> dict[str, np.ndarray]:
    """The ids of some rows as integers, by `ID_COLUMNS`.

    Raises:
        DataError: The column is missing.
    """
    require_column(table.column_names, column, "data.event_id", where)
    columns = (*identities(table[column]).T, ~is_missing(table[column]))
    return dict(zip(ID_COLUMNS, columns, strict=True))


def first_events(
    among: np.ndarray, time: np.ndarray, key: np.ndarray, ids: Sequence[np.ndarray]
) -> np.ndarray:
    """Whether each of some rows is the first one of its event.

    Args:
        among: `(rows,)`, the rows that count.
        time: `(rows,)`.
        key: `(rows,)`, number of the key.
        ids: Columns of `event_ids`.
    """
    first, more, has_id = ids
    numbers = event_numbers(time.view(np.int64), key, first, more)
    return is_first(np.where(has_id.astype(bool), numbers, -1), among)
