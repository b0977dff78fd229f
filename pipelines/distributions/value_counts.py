"""Counts of values by key: exact, mergeable, and small for any number of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_DROPPED_BITS = 12  # of a float32's 23 of precision: a key stands for 0.05 % of its value


@dataclass(frozen=True)
class Counts:
    """Number of occurrences of each key, independent of the partition of the data.

    Attributes:
        keys: Distinct, rising: `(keys,)`.
        counts: Positive: `(keys,)`.
    """

    keys: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> Counts:
        """Counts integers."""
        distinct, counts = np.unique(np.asarray(keys, "int64"), return_counts=True)
        return cls(distinct, counts)

    def merged(self, other: Counts) -> Counts:
        """The sum of two counts."""
        keys, places = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        weights = np.concatenate([self.counts, other.counts])
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, places, weights)
        return Counts(keys, counts)

    @cached_property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    def at(self, key: int) -> int:
        """Number of occurrences of a key."""
        return int(self.counts[self.keys == key].sum())

    def quantile_key(self, share: float) -> int:
        """The smallest key that at least a share `share` of the values does not exceed."""
        place = int(np.searchsorted(np.cumsum(self.counts), share * self.total))
        return int(self.keys[min(place, len(self.keys) - 1)])

    def cut(self, edges: np.ndarray) -> np.ndarray:
        """Number of values below, between and above the edges: `(edges + 1,)`."""
        bins = np.zeros(len(edges) + 1, np.int64)
        np.add.at(bins, np.searchsorted(edges, self.keys, side="right"), self.counts)
        return bins

    def edges(self, parts: int) -> np.ndarray:
        """Keys that cut the values into at most `parts` parts of nearly equal size."""
        keys = [self.quantile_key(i / parts) for i in range(1, parts)] if self.total else []
        return np.unique(np.array(keys, np.int64) + 1)


NOTHING = Counts(np.empty(0, np.int64), np.empty(0, np.int64))


def number_keys(values: np.ndarray) -> np.ndarray:
    """Keys of finite float32 numbers, in the numbers' order: their first 20 bits.

    Whole numbers up to 4096 have a key each.
    """
    bits = (np.asarray(values, "float32") + np.float32(0)).view("uint32")  # -0 is 0
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return (ordered >> _DROPPED_BITS).astype("int64")


def key_numbers(keys: np.ndarray) -> np.ndarray:
    """The number nearest to zero of those with each key.

    >>> key_numbers(number_keys(np.array([-7.0, 0.0, 0.25, 4095.0]))).tolist()
    [-7.0, 0.0, 0.25, 4095.0]
    """
    ordered = np.asarray(keys, "uint32") << np.uint32(_DROPPED_BITS)
    positive = (ordered >> 31).astype(bool)
    rest = np.uint32((1 << _DROPPED_BITS) - 1)
    bits = np.where(positive, ordered & np.uint32(2**31 - 1), ~(ordered | rest))
    return bits.astype("uint32").view("float32")
