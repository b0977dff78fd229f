"""Ragged rows of 64-bit words, packed and unpacked for many keys at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Section:
    """Some rows of each key.

    Attributes:
        counts: `(keys,)`, the number of rows of each key.
        rows: `(all rows, words)`, int64, those of the first key first.
    """

    counts: np.ndarray
    rows: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """`(keys,)`, the words of each key."""
        return self.counts * self.rows.shape[1]


def pack(sections: Sequence[Section]) -> list[np.ndarray]:
    """The words of each key: its rows of the first section, then those of the second, ..."""
    lengths = np.sum([section.size for section in sections], axis=0)
    ends = np.cumsum(lengths)
    words = np.empty(ends[-1] if len(ends) else 0, np.int64)
    start = ends - lengths
    for section in sections:
        words[_places(start, section.size)] = section.rows.ravel()
        start = start + section.size
    return np.split(words, ends[:-1]) if len(ends) else []


class Unpacker:
    """Takes sections from the words of many keys, in the order in which they were packed.

    Args:
        words: Of all keys, those of the first key first.
        lengths: `(keys,)`, the number of words of each key.
    """

    def __init__(self, words: np.ndarray, lengths: np.ndarray) -> None:
        self._words = words
        self._next = np.cumsum(lengths) - lengths
        self._ends = self._next + lengths

    def take(self, counts: np.ndarray, width: int) -> np.ndarray:
        """`(all rows, width)`: the next rows of each key.

        Raises:
            ValueError: A key has fewer words.
        """
        size = counts * width
        if (counts < 0).any() or (self._next + size > self._ends).any():
            raise ValueError("a key has fewer words than its header says")
        if len(size) == 1:  # as of the user of a request
            rows = self._words[self._next[0] : self._next[0] + size[0]].reshape(-1, width).copy()
        else:
            rows = self._words[_places(self._next, size)].reshape(-1, width)
        self._next = self._next + size
        return rows

    def rest(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the words begin and end that no section has taken."""
        return self._next, self._ends


def _places(start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """`start[k], start[k] + 1, ...` for each key k, `size[k]` of them."""
    first = np.cumsum(size) - size
    return np.arange(size.sum()) + np.repeat(start - first, size)
