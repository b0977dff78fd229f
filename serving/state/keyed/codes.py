"""Numbers for keys, in the order of their appearance."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.keyed.keys import Key, column_keys


class Codes:
    """Numbers the distinct keys of some columns in the order of their appearance.

    Args:
        columns: Names of the columns of a key; none: all rows have the same, empty key.
        keys: Those that have the first numbers.
    """

    def __init__(self, columns: Sequence[str], keys: Sequence[Key] = ()) -> None:
        self._columns = columns
        numbers = itertools.count(len(keys))
        self._numbers = defaultdict[Key, int](numbers.__next__, zip(keys, itertools.count()))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[Key]:
        """The keys by number."""
        return list(self._numbers)

    def numbers(self, keys: Iterable[Key]) -> np.ndarray:
        """The numbers of some keys."""
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64)

    def encode(self, table: pa.Table) -> np.ndarray:
        """The number of each row, -1 where a column is missing."""
        if not self._columns:
            return self.numbers([()])[np.zeros(table.num_rows, np.int64)]
        encoded = [
            with_nulls(table[name]).combine_chunks().dictionary_encode() for name in self._columns
        ]
        place = np.zeros(table.num_rows, np.int64)  # among the pairs of this table
        present = np.ones(table.num_rows, bool)
        for count, column in enumerate(encoded):
            present &= column.is_valid().to_numpy(zero_copy_only=False)
            if count > 1:  # the places of three columns may be more than an int64 holds
                place = np.unique(place, return_inverse=True)[1]
            place = place * max(len(column.dictionary), 1) + column.indices.fill_null(0).to_numpy()
        _, first, inverse = np.unique(place[present], return_index=True, return_inverse=True)
        rows = pa.array(np.flatnonzero(present)[first])
        parts = [_taken(column, column.indices.take(rows)) for column in encoded]
        codes = np.full(table.num_rows, -1)
        codes[present] = self.numbers(zip(*parts, strict=True))[inverse]
        return codes


def _taken(column: pa.DictionaryArray, indices: pa.Array) -> list[bytes]:
    """The bytes of the values at some places of the dictionary; equal ones are one object."""
    used, place = np.unique(indices.to_numpy(), return_inverse=True)
    values = column_keys(column.dictionary.take(pa.array(used)))
    return [values[number] for number in place.tolist()]
