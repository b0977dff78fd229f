"""Numbers for keys, in the order of their appearance."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.keyed.keys import Key, column_keys


class Codes:
    """Numbers the distinct keys of some columns in the order of their appearance.

    Args:
        columns: Names of the columns of a key; none: all rows have the same, empty key.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._numbers = defaultdict[Key, int](itertools.count().__next__)
        self._parts: dict[bytes, bytes] = {}  # so that keys of several columns share theirs

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[Key]:
        """The keys by number."""
        return list(self._numbers)

    def encode(self, table: pa.Table) -> np.ndarray:
        """The number of each row, -1 where a column is missing."""
        if not self._columns:
            return self._numbered(np.zeros(table.num_rows, np.int64), [()])
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
        parts = [self._bytes(column, rows) for column in encoded]
        codes = np.full(table.num_rows, -1)
        codes[present] = self._numbered(inverse, list(zip(*parts, strict=True)))
        return codes

    def _bytes(self, column: pa.DictionaryArray, rows: pa.Array) -> list[bytes]:
        """The bytes of a column in some rows."""
        if len(self._columns) == 1:
            return column_keys(column.dictionary.take(column.indices.take(rows)))
        used, number = np.unique(column.indices.take(rows).to_numpy(), return_inverse=True)
        of_value = column_keys(column.dictionary.take(pa.array(used)))
        of_value = [self._parts.setdefault(part, part) for part in of_value]
        return [of_value[value] for value in number.tolist()]

    def _numbered(self, index: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        """The numbers of `keys[index]`."""
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))[index]
