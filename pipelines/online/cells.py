"""Counts of missing values and of a store's answers, by version and period."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.online.row_files import DEGRADED, LAG, STATE, VERSION, HourRows


class StoreAnswers:
    """What a store gave answers: how many were degraded, and the lag of the state."""

    def __init__(self) -> None:
        self.answers = self.with_store = self.degraded = 0
        self._lags: list[np.ndarray] = []

    def add(self, states: pa.ChunkedArray, lags: NDArray[np.float64]) -> None:
        """Adds answers by the columns of their state and of its lag."""
        self.answers += len(states)
        self.with_store += len(states) - states.null_count
        self.degraded += pc.sum(pc.equal(states, DEGRADED)).as_py() or 0
        self._lags.append(lags[~np.isnan(lags)].astype(np.float32))

    def add_all(self, other: StoreAnswers) -> None:
        """Adds the answers of another period or version."""
        self.answers += other.answers
        self.with_store += other.with_store
        self.degraded += other.degraded
        self._lags += other._lags

    @property
    def lags(self) -> NDArray[np.float32]:
        """The lag of each answer that has one, in seconds."""
        return np.concatenate([np.zeros(0, np.float32), *self._lags])

    @property
    def entry(self) -> dict[str, Any]:
        """The numbers as online.json has them; None where no answer has a store or a lag."""
        lags = self.lags
        median, high = np.quantile(lags, (0.5, 0.99)).tolist() if lags.size else (None, None)
        return {
            "answers": self.answers,
            "with_store": self.with_store,
            "degraded": self.degraded / self.with_store if self.with_store else None,
            "lag_median": median,
            "lag_99": high,
        }


class Cell:
    """The counts of some rows.

    Attributes:
        rows: Number of rows.
        missing: Missing values by feature.
        store: What a store gave the answers.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.missing: Counter[str] = Counter()
        self.store = StoreAnswers()

    def add_all(self, other: Cell) -> None:
        """Adds the rows of another period or version."""
        self.rows += other.rows
        self.missing.update(other.missing)
        self.store.add_all(other.store)

    @property
    def entry(self) -> dict[str, Any]:
        """The counts as online.json has them: the shares of missing values, and the store."""
        missing = {name: count / self.rows for name, count in self.missing.items()}
        return {"missing": missing, "store": self.store.entry}


def cells_of(
    hour: HourRows, answers: NDArray[np.int64], features: tuple[str, ...]
) -> dict[int, Cell]:
    """The counts of an hour by version.

    Args:
        hour: The rows of a file.
        answers: The first row of each answer.
        features: The features.
    """
    versions, codes = np.unique(hour.table[VERSION].to_numpy(), return_inverse=True)
    cells = [Cell() for _ in versions]
    firsts = hour.table.select([STATE, LAG]).take(pa.array(answers))
    lags = firsts[LAG].to_numpy()
    for code, (cell, rows) in enumerate(zip(cells, np.bincount(codes).tolist(), strict=True)):
        cell.rows = rows
        cell.missing.update(dict.fromkeys(features, 0))
        of_version = np.flatnonzero(codes[answers] == code)
        cell.store.add(firsts[STATE].take(pa.array(of_version)), lags[of_version])
    for rows, feature, absent in hour.missing(features):
        counts = np.bincount(codes[rows][absent], minlength=len(cells))
        for cell, count in zip(cells, counts.tolist(), strict=True):
            cell.missing[feature] += count
    return dict(zip(versions.tolist(), cells, strict=True))
