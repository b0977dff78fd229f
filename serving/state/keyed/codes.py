"""Numbers for keys, in the order of their appearance."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.keyed.keys import Key, column_keys

_T = TypeVar("_T", bound=Hashable)
_HALF = 32  # bits


class Codes:
    """Numbers the distinct keys of some columns in the order of their appearance.

    Args:
        columns: Names of the columns of a key; none: all rows have the same, empty key.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = {name: _Numbers[bytes]() for name in columns}
        # Of the first two columns, of these and the third, ...: one integer for two numbers.
        self._pairs = [_Numbers[int]() for _ in columns[1:]]

    def __len__(self) -> int:
        if self._pairs:
            return len(self._pairs[-1])
        return sum(map(len, self._columns.values())) if self._columns else 1

    @property
    def keys(self) -> list[Key]:
        """The keys by number."""
        number = np.arange(len(self))
        columns = [list(numbers) for numbers in self._columns.values()]
        parts: list[list[bytes]] = []
        for of_pair, values in zip(self._pairs[::-1], columns[:0:-1], strict=True):
            pair = np.fromiter(of_pair, np.int64, len(of_pair))[number]
            number = pair >> _HALF
            parts.insert(0, _taken(values, pair & ((1 << _HALF) - 1)))
        return list(zip(_taken(columns[0], number), *parts, strict=True)) if columns else [()]

    def encode(self, table: pa.Table) -> np.ndarray:
        """The number of each row, -1 where a column is missing."""
        if not self._columns:
            return np.zeros(table.num_rows, np.int64)
        first, *others = [_encoded(numbers, table[n]) for n, numbers in self._columns.items()]
        codes = first
        for of_pair, of_column in zip(self._pairs, others, strict=True):
            present = (codes >= 0) & (of_column >= 0)
            pairs = codes[present] << _HALF | of_column[present]
            distinct, place = np.unique(pairs, return_inverse=True)
            codes = np.full(table.num_rows, -1)
            codes[present] = of_pair.of(distinct.tolist())[place]
        return codes


class _Numbers(defaultdict[_T, int], Generic[_T]):
    """Numbers of values; a new one has the next."""

    def __init__(self) -> None:
        super().__init__(itertools.count().__next__)

    def of(self, values: Sequence[_T]) -> np.ndarray:
        """The number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int64, len(values))


def _encoded(numbers: _Numbers[bytes], column: pa.ChunkedArray) -> np.ndarray:
    """The number of the value of each row, -1 where it is missing."""
    encoded = with_nulls(column).combine_chunks().dictionary_encode()
    present = encoded.is_valid().to_numpy(zero_copy_only=False)
    used, place = np.unique(encoded.indices.drop_null().to_numpy(), return_inverse=True)
    codes = np.full(len(column), -1)
    codes[present] = numbers.of(column_keys(encoded.dictionary.take(pa.array(used))))[place]
    return codes


def _taken(values: Sequence[bytes], places: np.ndarray) -> list[bytes]:
    return [values[place] for place in places.tolist()]
