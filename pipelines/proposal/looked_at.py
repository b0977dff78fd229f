"""Columns of a log as a proposal sees them: types, values and counts of its first rows."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.ingest.source import Source
from pipelines.storage.columns import plain
from serving.state.columns.arrow_kinds import is_bytes, is_list, is_number, is_text
from serving.state.columns.times import ticks_per_second, to_ticks
from serving.state.errors import DataError

ROWS = 200_000
_SHOWN, _LETTERS = 3, 30


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Attributes:
        name: Its name.
        values: Its values in the rows that were read.
    """

    name: str
    values: pa.Array

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self.values.type

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """A number for each different value, `(rows,)`; null is one too."""
        values = self.values
        if pa.types.is_nested(self.kind):
            texts = [None if value is None else str(value) for value in values.to_pylist()]
            values = pa.array(texts, pa.string())
        encoded = values.dictionary_encode(null_encoding="encode")
        codes: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
        return codes

    @cached_property
    def distinct(self) -> int:
        """The number of different values; null is one too."""
        return int(self.codes.max(initial=-1)) + 1

    @property
    def is_single(self) -> bool:
        """Whether a row has one text or one number."""
        return is_text(self.kind) or is_bytes(self.kind) or is_number(self.kind)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values of a column of numbers, without nulls."""
        known = self.values.cast(pa.float64(), safe=False).drop_null()
        numbers: NDArray[np.float64] = known.to_numpy()
        return numbers

    @cached_property
    def is_finite(self) -> bool:
        """Whether a column of numbers has neither NaN nor infinity."""
        return bool(np.isfinite(self.numbers).all())

    @cached_property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers, as ids are."""
        return is_number(self.kind) and self.is_finite and not (self.numbers % 1).any()

    @cached_property
    def is_flag(self) -> bool:
        """Whether the values are 0 and 1, and both."""
        return is_number(self.kind) and set(np.unique(self.numbers).tolist()) == {0.0, 1.0}

    @cached_property
    def is_time(self) -> bool:
        """Whether each row has a date, a timestamp or such a text."""
        if ticks_per_second(self.kind) is None or not len(self.values):
            return False
        try:
            to_ticks(self.values, self.name, "", "")
        except DataError:
            return False
        return True

    def by(self, key: Column) -> bool:
        """Whether rows of one value of another column have one value of this one."""
        pairs = len(np.unique(key.codes * self.distinct + self.codes))
        return pairs == key.distinct

    @property
    def shown(self) -> str:
        """Some values, for a comment."""
        some = self.values[:1000].drop_null()
        if is_list(self.kind):
            some = pc.list_flatten(some)
        return ", ".join(map(_text, some.unique()[:_SHOWN].to_pylist()))


def _text(value: Any) -> str:
    """A value on one line."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split())[:_LETTERS]


def read_columns(source: Source) -> list[Column]:
    """The columns of the first rows, the same number of each file.

    Args:
        source: The rows.
    """
    files = [file for part in source.parts.values() for file in part]
    tables = []
    for file in files:
        left = max(ROWS // len(files), 1)
        for table in file.read(None):
            tables.append(table.slice(0, left))
            left -= tables[-1].num_rows
            if left <= 0:
                break
    if not tables:
        return []
    rows = pa.concat_tables(tables, promote_options="default")
    return [Column(name, _plain(rows[name])) for name in rows.column_names]


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """The values as one array of the type that the other steps read."""
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    kind = plain(values.type)
    return values if values.type == kind else values.cast(kind)


def lists_ids_of(listed: Column, ids: Column) -> bool:
    """Whether most values of a column of lists are values of another column.

    Args:
        listed: Lists.
        ids: Single values.
    """
    if not is_list(listed.kind) or plain(listed.kind.value_type) != plain(ids.kind):
        return False
    values = pc.list_flatten(listed.values).unique().drop_null()
    if not len(values):
        return False
    return bool(pc.mean(pc.is_in(values, ids.values.unique()).cast(pa.int8())).as_py() > 0.5)
