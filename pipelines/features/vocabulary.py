"""Vocabulary: every value that is frequent enough has a row of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from pipelines.features.base import MISSING_INT, GraphFunction, is_missing
from recsys_attn.schema import PADDING_ID, RESERVED_IDS, UNKNOWN_ID


class VocabularyTransform:
    """Value i of the vocabulary has id i + 2; a value outside it is unknown."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    @property
    def size(self) -> int:
        return RESERVED_IDS + len(self.values)

    def apply(self, values: pa.Array) -> np.ndarray:
        found = pc.fill_null(pc.index_in(values, value_set=self.values), UNKNOWN_ID - RESERVED_IDS)
        ids = found.to_numpy(zero_copy_only=False).astype("int32") + RESERVED_IDS
        ids[is_missing(values)] = PADDING_ID
        return ids

    def graph(self) -> GraphFunction:
        return _Lookup(self.values)

    def state(self) -> dict[str, Any]:
        return {"kind": "vocabulary", "values": self.values}


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
        kept = state.filter(pc.greater_equal(state["count"], self.min_count))
        # Ties are broken by value, so that the order of the data does not decide the ids.
        kept = kept.sort_by([("count", "descending"), ("value", "ascending")])
        if self.max_size is not None:
            kept = kept.slice(0, self.max_size)
        return VocabularyTransform(kept["value"].combine_chunks())
