"""Outcomes as labels of the rows that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.outcomes.outcome_files import TICK
from serving.state.columns.missing import with_nulls


@dataclass(frozen=True)
class RowKeys:
    """What decides which outcomes belong to some rows.

    Attributes:
        keys: `(rows,)`, the columns that name a row.
        ticks: `(rows,)`, the times.
        versions: `(rows,)`, the versions that answered.
    """

    keys: pa.Table
    ticks: np.ndarray
    versions: np.ndarray

    @classmethod
    def concat(cls, parts: Sequence[RowKeys]) -> RowKeys:
        """The keys of several tables of rows."""
        return cls(
            pa.concat_tables([part.keys for part in parts]),
            np.concatenate([part.ticks for part in parts]),
            np.concatenate([part.versions for part in parts]),
        )


def attribute(
    rows: RowKeys,
    outcomes: pa.Table,
    labels: Sequence[str],
    window: int,
    of_version: bool,
    later: RowKeys | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Gives each outcome to the newest row of its key that is not after it.

    An outcome at time t belongs to the rows of its key with the greatest time t_row <= t, if
    t <= t_row + window. A label of a row is the largest of its outcomes, 0 without one.

    Args:
        rows: The rows.
        outcomes: The outcomes, with their keys, labels and `TICK`.
        labels: The labels.
        window: The window in ticks.
        of_version: Whether the rows of each version are looked at alone: a key names one request.
        later: Rows after these, to which outcomes may belong.

    Returns:
        `(rows, labels)` int8, and whether each outcome belongs to a row: `(outcomes,)`.
    """
    count, names = len(rows.ticks), rows.keys.column_names
    both = rows if later is None else RowKeys.concat([rows, later])
    ticks, versions = both.ticks, both.versions
    codes = _codes([both.keys, outcomes.select(names)])
    values = np.stack([_is_yes(outcomes[name]) for name in labels], axis=1)
    marked = np.zeros((count, len(labels)), np.int8)
    belongs = np.zeros(outcomes.num_rows, bool)
    code, tick = codes[len(ticks) :], outcomes[TICK].to_numpy()
    for version in np.unique(versions) if of_version else [None]:
        chosen = np.flatnonzero((codes[: len(ticks)] >= 0) & _is(versions, version))
        if not len(chosen):
            continue
        place, group = _newest(codes[chosen], ticks[chosen], code, tick, window)
        hit = place >= 0
        is_here = np.zeros(group.max() + 1, bool)
        is_here[group[chosen < count]] = True
        belongs[hit] |= is_here[place[hit]]
        of_group = np.zeros((len(is_here), len(labels)), np.int8)
        for column in range(len(labels)):
            of_group[place[hit & values[:, column]], column] = 1
        here = chosen < count
        marked[chosen[here]] = of_group[group[here]]
    return marked, belongs


def _newest(
    row_code: np.ndarray, row_tick: np.ndarray, code: np.ndarray, tick: np.ndarray, window: int
) -> tuple[np.ndarray, np.ndarray]:
    """The group of rows of each outcome, -1 for none, and the group of each row.

    A group is the rows of one key and one time.
    """
    times, rank = np.unique(np.concatenate([row_tick, tick]), return_inverse=True)
    size = len(times)
    pairs, group = np.unique(row_code * size + rank[: len(row_tick)], return_inverse=True)
    place = np.searchsorted(pairs, code * size + rank[len(row_tick) :], side="right") - 1
    of_code, of_time = np.divmod(pairs[place], size)
    belongs = (place >= 0) & (code >= 0) & (of_code == code) & (tick - times[of_time] <= window)
    return np.where(belongs, place, -1), group


def _codes(tables: Sequence[pa.Table]) -> np.ndarray:
    """A number for each row, equal for equal keys; -1 where a key is missing."""
    table = pa.concat_tables(tables)
    codes, present = np.zeros(table.num_rows, np.int64), np.ones(table.num_rows, bool)
    for name in table.column_names:
        column = with_nulls(table[name]).combine_chunks().dictionary_encode()
        present &= column.is_valid().to_numpy(zero_copy_only=False)
        places = column.indices.fill_null(0).to_numpy()
        codes = np.unique(codes * (len(column.dictionary) + 1) + places, return_inverse=True)[1]
    return np.where(present, codes, -1)


def _is_yes(column: pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(pc.equal(column, 1), False).to_numpy()


def _is(versions: np.ndarray, version: int | None) -> np.ndarray:
    return np.ones(len(versions), bool) if version is None else versions == version
