"""Ids of events: rows of equal id, key and time are one event, which counts once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class Counted(NamedTuple):
    """Events that a feature has counted.

    Attributes:
        key: `(events,)`, number of the key.
        time: `(events,)`.
        ids: `(events, 2)`.
    """

    key: np.ndarray
    time: np.ndarray
    ids: np.ndarray

    def where(self, chosen: np.ndarray) -> Counted:
        """Some of the events."""
        return Counted(self.key[chosen], self.time[chosen], self.ids[chosen])


def first_events(
    among: np.ndarray,
    time: np.ndarray,
    key: np.ndarray,
    ids: Sequence[np.ndarray],
    before: Counted | None = None,
) -> np.ndarray:
    """Whether each of some rows is the first one of its event.

    Args:
        among: `(rows,)`, the rows that count.
        time: `(rows,)`.
        key: `(rows,)`, number of the key.
        ids: Columns of `event_ids`.
        before: The events of an earlier log.
    """
    first, more, has_id = ids
    known = has_id.astype(bool)
    if before is None or not len(time):
        numbers = event_numbers(time.view(np.int64), key, first, more)
        return is_first(np.where(known, numbers, -1), among)
    before = before.where((before.time >= time.min()) & (before.time <= time.max()))
    numbers = event_numbers(
        np.concatenate([before.time, time]).view(np.int64),
        np.concatenate([before.key, key]),
        *np.concatenate([before.ids, np.stack([first, more], axis=1)]).T,
    )
    earlier = np.ones(len(before.key), bool)
    events = np.where(np.concatenate([earlier, known]), numbers, -1)
    return is_first(events, np.concatenate([earlier, among]))[len(earlier) :]
