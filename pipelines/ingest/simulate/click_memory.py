"""The last clicks of each user."""

from __future__ import annotations

import numpy as np


class ClickMemory:
    """Keeps the last clicks of each user.

    Args:
        users: Number of users.
        length: Clicks of a user to keep.
    """

    def __init__(self, users: int, length: int) -> None:
        self._items = np.full((users, length), -1, np.int32)
        self._count = np.zeros(users, np.int64)

    def of(self, user: np.ndarray) -> np.ndarray:
        """Items `(R, L)` that users `(R,)` clicked, oldest first, -1 after the end."""
        return self._items[user]

    def add(self, user: np.ndarray, item: np.ndarray) -> None:
        """Takes in clicks `(C,)` in order of time."""
        order = np.argsort(user, kind="stable")
        users, first, number = np.unique(user[order], return_index=True, return_counts=True)
        inside = np.arange(len(order)) - np.repeat(first, number)
        length = self._items.shape[1]
        dropped = np.maximum(self._count[users] + number - length, 0)
        kept = np.arange(length) + dropped[:, None]
        padded = np.pad(self._items[users], ((0, 0), (0, 1)), constant_values=-1)
        items = np.take_along_axis(padded, np.minimum(kept, length), axis=1)
        row = np.repeat(np.arange(len(users)), number)
        place = (self._count[users] - dropped)[row] + inside
        fits = place >= 0
        items[row[fits], place[fits]] = item[order][fits]
        self._items[users] = items
        self._count[users] = np.minimum(self._count[users] + number, length)
