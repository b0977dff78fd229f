"""Vocabularies: every frequent value has its own table row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from pipelines.features.graph_transform import (
    GraphFunction,
    apply_distinct,
    apply_graph,
    raw_numbers,
)
from pipelines.features.transforms import TRANSFORMS
from recsys_attn.schema import PADDING_ID, RESERVED_IDS, UNKNOWN_ID
from serving.state.columns.missing import MISSING_INT, is_missing

_SPARSE = 4  # largest range of the integers per known value
_SMALL = 65_536


class VocabularyTransform:
    """Value i of the vocabulary has id i + 2; other values are unknown."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    @property
    def size(self) -> int:
        return RESERVED_IDS + len(self.values)

    def apply(self, values: pa.Array) -> np.ndarray:
        if not pa.types.is_integer(values.type):
            return apply_distinct(self._lookup, values)
        return apply_graph(self._lookup, values) if self._dense is None else self._dense(values)

    def graph(self) -> GraphFunction:
        return self._lookup

    @cached_property
    def _dense(self) -> _Dense | None:
        if not pa.types.is_integer(self.values.type) or not len(self.values):
            return None
        numbers = self.values.to_numpy()
        span = int(numbers.max()) - int(numbers.min())
        return _Dense(numbers) if span < _SPARSE * len(numbers) + _SMALL else None

    @cached_property
    def _lookup(self) -> _Lookup:
        return _Lookup(self.values)

    def state(self) -> dict[str, Any]:
        return {"kind": "vocabulary", "values": self.values}


class _Dense:
    """Ids of integers in a narrow range: an array is faster than a hash table."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._before = numbers.min() - 1
        # Values out of range read one of the two ends, even if the difference overflows.
        self._ids = np.full(numbers.max() - self._before + 2, UNKNOWN_ID, "int32")
        self._ids[numbers - self._before] = np.arange(len(numbers)) + RESERVED_IDS

    def __call__(self, values: pa.Array) -> np.ndarray:
        numbers = raw_numbers(values)
        ids = self._ids.take(numbers - self._before, mode="clip")
        if len(numbers) and numbers.min() == MISSING_INT:
            ids[numbers == MISSING_INT] = PADDING_ID
        return ids


class _Lookup(tf.Module):
    def __init__(self, values: pa.Array) -> None:
        super().__init__()
        is_string = pa.types.is_string(values.type)
        # The missing value is a key too, so that no table is empty: TensorFlow refuses those.
        keys = tf.constant(
            ["" if is_string else MISSING_INT, *values.to_pylist()],
            tf.string if is_string else tf.int64,
        )
        ids = np.concatenate([[PADDING_ID], np.arange(len(values)) + RESERVED_IDS])
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, tf.constant(ids, tf.int64)),
            default_value=UNKNOWN_ID,
        )

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.table.lookup(values), tf.int32)


@TRANSFORMS.register("vocabulary")
@dataclass(frozen=True)
class VocabularyFitter:
    """Counts values. The state is a table of values and counts, as large as the vocabulary."""

    min_count: int = 1
    max_size: int | None = None

    def fit_batch(self, values: pa.Array) -> pa.Table:
        present = values.filter(pa.array(~is_missing(values)))
        counts = pc.value_counts(present)
        return pa.table({"value": counts.field("values"), "count": counts.field("counts")})

    def merge(self, first: pa.Table, second: pa.Table) -> pa.Table:
        both = pa.concat_tables([first, second])
        sums = both.group_by("value").aggregate([("count", "sum")])
        return pa.table({"value": sums["value"], "count": sums["count_sum"]})

    def finish(self, state: pa.Table) -> VocabularyTransform:
        return VocabularyTransform(self._frequent(state, self.max_size))

    def grow(self, earlier: VocabularyTransform, state: pa.Table) -> VocabularyTransform:
        """The earlier vocabulary with the new values that are frequent in these rows alone."""
        known = pc.is_in(state["value"], value_set=earlier.values)
        room = None if self.max_size is None else max(0, self.max_size - len(earlier.values))
        new = self._frequent(state.filter(pc.invert(known)), room)
        return VocabularyTransform(pa.concat_arrays([earlier.values, new]))

    def _frequent(self, state: pa.Table, room: int | None) -> pa.Array:
        """The frequent values, most frequent first."""
        frequent = state.filter(pc.greater_equal(state["count"], self.min_count))
        # Ties are broken by value, so that the order of the data does not decide the ids.
        frequent = frequent.sort_by([("count", "descending"), ("value", "ascending")])
        return frequent["value"].slice(0, room).combine_chunks()

    def load(self, state: dict[str, Any]) -> VocabularyTransform:
        return VocabularyTransform(state["values"])
