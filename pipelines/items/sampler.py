"""Draws items without replacement, by weight, and none that a request has already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pipelines.items.feature_table import ABSENT
from pipelines.items.item_table import ItemTable

_POWER = 0.75  # of word2vec: between draws by frequency and uniform ones


@dataclass(frozen=True)
class Sampler:
    """Draws rows of an item table, one after another, each in proportion to its weight.

    Args:
        rows: Rows of the item table `(n,)`, each once.
        weights: Their weights `(n,)`, above 0; None draws uniformly.
    """

    rows: np.ndarray
    weights: np.ndarray | None = None

    @classmethod
    def uniform(cls, items: ItemTable) -> Self:
        """Draws every item with the same probability."""
        return cls(np.arange(len(items), dtype="int32"))

    @classmethod
    def by_popularity(cls, items: ItemTable) -> Self:
        """Draws in proportion to (1 + positives in the train split) ** 0.75."""
        return cls(np.arange(len(items), dtype="int32"), (1 + items.positives) ** _POWER)

    @classmethod
    def of_batch(cls, rows: np.ndarray) -> Self:
        """Draws in proportion to the count of each row; `ABSENT` is left out."""
        distinct, counts = np.unique(rows[rows != ABSENT], return_counts=True)
        return cls(distinct.astype("int32"), counts.astype("float64"))

    def draw(self, rng: np.random.Generator, excluded: np.ndarray, count: int) -> np.ndarray:
        """Different rows for each request, none of them `taken`.

        Args:
            rng: The random numbers.
            excluded: Rows that a request must not get `(B, any)`, filled up with `ABSENT`.
            count: Number of rows for each request.

        Returns:
            Rows `(B, count)`, int32. `ABSENT` fills the end where too few are left to draw.
        """
        drawn = np.full((len(excluded), count), ABSENT, "int32")
        open_rows, width = np.arange(len(excluded)), 2 * count
        tries = np.empty((len(excluded), 0), "int32")
        while len(open_rows):
            is_last = width >= len(self.rows)  # then a whole order costs no more than draws
            more = (
                self._order(rng, len(open_rows))
                if is_last
                else self._chosen(rng, len(open_rows), width)
            )
            tries = np.concatenate([tries, more], axis=1)
            fresh = _first_in_row(np.concatenate([excluded[open_rows], tries], axis=1))
            fresh = fresh[:, excluded.shape[1] :]
            done = np.full(len(open_rows), True) if is_last else fresh.sum(axis=1) >= count
            place = fresh.cumsum(axis=1) - 1
            request, column = np.nonzero(fresh & (place < count) & done[:, None])
            drawn[open_rows[request], place[request, column]] = tries[request, column]
            open_rows, tries, width = open_rows[~done], tries[~done], 4 * width
        return drawn

    def _chosen(self, rng: np.random.Generator, requests: int, width: int) -> np.ndarray:
        """Draws with replacement."""
        if self.weights is None:
            return self.rows.take(rng.integers(len(self.rows), size=(requests, width)))
        places = np.searchsorted(self._sums, rng.random((requests, width)) * self._sums[-1])
        return self.rows.take(np.minimum(places, len(self.rows) - 1))

    def _order(self, rng: np.random.Generator, requests: int) -> np.ndarray:
        """All rows in the order in which they would be drawn: the earliest of exponential times."""
        times = rng.standard_exponential((requests, len(self.rows)))
        if self.weights is not None:
            times /= self.weights
        return self.rows.take(np.argsort(times, axis=1, kind="stable"))

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.cumsum(np.ones(len(self.rows)) if self.weights is None else self.weights)


def _first_in_row(values: np.ndarray) -> np.ndarray:
    """Whether no equal value stands before, in the same row."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    is_first = np.ones(values.shape, bool)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.empty(values.shape, bool)
    np.put_along_axis(first, order, is_first, axis=1)
    return first
