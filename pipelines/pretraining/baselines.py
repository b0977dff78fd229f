"""Simple rules that score a whole catalogue, to compare sequence models with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recsys_attn.schema import RESERVED_IDS

PAIRS = 2**24  # pairs of items at a time, at most 400 MB
_TIES = 1e-9  # far below any difference of cosines that counts
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

    The pairs of items are counted for some items at a time. The items of each user take some 40
    bytes each meanwhile; what is kept are 12 bytes for each neighbour of each item.

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
        users = _matrix(rows, size)
        users.data[:] = 1  # an item twice counts once
        norms = 1 / np.sqrt(np.maximum(np.asarray(users.sum(axis=0)).ravel(), 1))
        unit = users @ sparse.diags(norms)
        by_item, at_once = unit.T.tocsr(), max(64, PAIRS // size)
        self._cosines = sparse.vstack(
            [
                _strongest(by_item[first : first + at_once] @ unit, first, neighbours)
                for first in range(0, size, at_once)
            ],
            format="csr",
        )

    def scores(self, histories: Integers) -> Floats:
        """Returns the scores `(B, V)`, float64: in float32 the counts would break no ties.

        Args:
            histories: Ids `(B, S)`, of which those below 2 do not count.
        """
        items = _matrix([histories], self._ties.size)
        items.data[:] = 1
        sums = (items @ self._cosines).toarray()
        sums += self._ties
        return sums


def _matrix(rows: Iterable[Integers], size: int) -> sparse.csr_matrix:
    """Returns how often each row has each item `(rows, V)`."""
    parts = [sparse.csr_matrix((0, size))]
    for ids in rows:
        row, column = np.nonzero(ids >= RESERVED_IDS)
        entries = np.ones(len(row)), (row, ids[row, column])
        parts.append(sparse.csr_matrix(entries, (len(ids), size)))
    return sparse.vstack(parts, format="csr")


def _strongest(cosines: sparse.csr_matrix, first: int, count: int) -> sparse.csr_matrix:
    """Returns the largest cosines of each item, without that to itself.

    Args:
        cosines: Of some items with all `(items, V)`.
        first: The id of the first of them.
        count: The most of an item; of equal ones, those with the lower ids are kept.
    """
    entries = cosines.tocoo()
    others = entries.col != entries.row + first
    row, column, value = entries.row[others], entries.col[others], entries.data[others]
    order = np.lexsort((column, -value, row))
    row, column, value = row[order], column[order], value[order]
    place = np.arange(row.size) - np.searchsorted(row, row)
    is_near = place < count
    return sparse.csr_matrix((value[is_near], (row[is_near], column[is_near])), cosines.shape)
