"""Numbers for keys, in the order of their appearance."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.missing import with_nulls
from serving.state.definitions.key_kinds import KeyKind, key_kind
from serving.state.keyed.keys import Key, keys_of, plain_values


class Codes:
    """Numbers the distinct keys of some columns in the order of their appearance.

    Args:
        columns: Names of the columns of a key; none: all rows have the same, empty key.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._kinds: dict[str, KeyKind] = dict.fromkeys(columns, "int64")
        self._numbers = defaultdict[tuple[Any, ...], int](itertools.count().__next__)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[Key]:
        """The keys by number."""
        if not self._kinds or not self._numbers:
            return list(self._numbers)
        columns = zip(self._kinds.values(), zip(*self._numbers, strict=True), strict=True)
        return list(zip(*(keys_of(values, kind) for kind, values in columns), strict=True))

    def encode(self, table: pa.Table) -> np.ndarray:
        """The number of each row, -1 where a column is missing."""
        if not self._kinds:
            return self._numbered(np.zeros(table.num_rows, np.int64), [()])
        self._kinds = {name: key_kind(_values(table[name].type)) for name in self._kinds}
        encoded = [
            with_nulls(table[name]).combine_chunks().dictionary_encode() for name in self._kinds
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
        codes[present] = self._numbered(inverse, list(zip(*parts, strict=True)))
        return codes

    def _numbered(self, index: np.ndarray, keys: Sequence[tuple[Any, ...]]) -> np.ndarray:
        """The numbers of `keys[index]`."""
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))[index]


def _values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _taken(column: pa.DictionaryArray, indices: pa.Array) -> list[Any]:
    """The values at some places of the dictionary; equal ones are one object."""
    used, place = np.unique(indices.to_numpy(), return_inverse=True)
    values = plain_values(column.dictionary.take(pa.array(used)))
    return [values[number] for number in place.tolist()]
