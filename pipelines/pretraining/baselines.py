"""Simple rules that score a whole catalogue, to compare sequence models with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys_attn.schema import RESERVED_IDS

PAIRS = 2**22  # pairs of items counted at a time, some 200 MB
_TIES = 1e-9
Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]


class Popularity:
    """Scores each item by its count, for every history the same.

    Args:
        counts: How often each id occurs in the train rows `(V,)`.
    """

    def __init__(self, counts: NDArray[Any]) -> None:
        self._counts = np.asarray(counts, np.float64)

    def scores(self, histories: Integers) -> Floats:
        """Returns the scores `(B, V)`, a view that cannot be written.

        Args:
            histories: Ids `(B, S)`.
        """
        return np.broadcast_to(self._counts, (len(histories), self._counts.size))


class ItemItem:
    """Scores each item by its neighbours in the history.

    `score(i) = sum_(j in history) cos(i, j)`, each j once, with
    `cos(i, j) = |users of i and j| / sqrt(|users of i| * |users of j|)` if i is a neighbour of j.
    Items of equal score are ranked by their counts.

    The pairs of items are counted for some items at a time. What is kept is 8 bytes for each
    event while counting, and 12 bytes for each neighbour of each item.

    Args:
        rows: Batches of ids `(users, any)`, a row for each user.
        size: Number of ids V, the reserved ones included.
        counts: How often each id occurs in the train rows `(V,)`.
        neighbours: The most neighbours of an item, those with the highest cosines and of equal
            ones the lower ids. Lower it where the memory does not suffice.

    Source: Sarwar et al., "Item-based collaborative filtering recommendation algorithms", WWW 2001.

    Example:
        >>> rows = [np.array([[2, 3, 0], [2, 3, 4]]), np.array([[4, 5]])]
        >>> rule = ItemItem(rows, size=6, counts=np.array([0, 0, 2, 2, 2, 1]))
        >>> rule.scores(np.array([[2, 0]])).round(2).tolist()
        [[0.0, 0.0, 0.0, 1.0, 0.5, 0.0]]
    """

    def __init__(
        self, rows: Iterable[Integers], size: int, counts: NDArray[Any], neighbours: int = 200
    ) -> None:
        self._ties = _TIES * np.asarray(counts, np.float64) / max(float(np.max(counts)), 1.0)
        self._size = size
        items, users = _matrix(rows)
        norms = np.sqrt(np.bincount(items, minlength=size))
        parts = [_strongest(*part, norms, neighbours) for part in _pairs(items, users, size)]
        found = [np.concatenate(each) for each in zip(*parts, strict=True)]
        of, self._neighbours, self._cosines = found or (np.empty(0, np.int32),) * 3
        self._starts = np.append(0, np.cumsum(np.bincount(of, minlength=size)))

    def scores(self, histories: Integers) -> Floats:
        """Returns the scores `(B, V)`; float64, since ties are too small a part for float32.

        Args:
            histories: Ids `(B, S)`, of which those below 2 do not count.
        """
        found = np.tile(self._ties, (len(histories), 1))
        row, item = _distinct(histories)
        counts = self._starts[item + 1] - self._starts[item]
        places = _ranges(self._starts[item], counts)
        row = np.repeat(row, counts)
        np.add.at(found, (row, self._neighbours[places]), self._cosines[places])
        return found


def _distinct(rows: Integers) -> tuple[Integers, Integers]:
    """Returns the number of the row and the id of each item, each once in a row."""
    ordered = np.sort(rows, axis=1)
    kept = (np.diff(ordered, axis=1, prepend=-1) > 0) & (ordered >= RESERVED_IDS)
    return np.nonzero(kept)[0], ordered[kept]


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """Returns the numbers from each start on, one range after another."""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts)
