"""Rows of a log as a group reads them: checked, and measured once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from serving.state.columns.times import to_ticks
from serving.state.definitions.group import Group
from serving.state.past.measures import measure


@dataclass(frozen=True)
class GroupRows:
    """Rows of a log.

    Attributes:
        table: Columns as the log has them.
        time: `(rows,)`, in the unit of the times.
        measures: Of each feature, as `measure` gives them.
    """

    table: pa.Table
    time: np.ndarray
    measures: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def of(cls, group: Group, table: pa.Table, where: str) -> GroupRows:
        """Measures rows.

        Args:
            group: The features.
            table: Columns as the log has them.
            where: Name of the rows, for errors.

        Raises:
            DataError: A time, a label or a number is invalid.
        """
        time = to_ticks(table[group.time], group.time, "time", where)
        return cls(table, time, tuple(measure(table, f, where) for f in group.features))
