"""Numbers for keys, in the order of their appearance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.keyed.keys import Key, column_keys


class Codes:
    """Numbers the distinct keys of some columns in the order of their appearance.

    Args:
        columns: Names of the columns of a key; none: all rows have the same, empty key.

    Attributes:
        keys: The keys by number.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._numbers: dict[Key, int] = {}
        self.keys: list[Key] = []

    def __len__(self) -> int:
        return len(self.keys)

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
        parts = [
            column_keys(column.dictionary.take(column.indices.take(rows))) for column in encoded
        ]
        codes = np.full(table.num_rows, -1)
        codes[present] = self._numbered(inverse, list(zip(*parts, strict=True)))
        return codes

    def _numbered(self, index: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        """The numbers of `keys[index]`."""
        of_keys = np.zeros(len(keys), np.int64)
        for place, key in enumerate(keys):
            number = self._numbers.setdefault(key, len(self.keys))
            if number == len(self.keys):
                self.keys.append(key)
            of_keys[place] = number
        return of_keys[index]
