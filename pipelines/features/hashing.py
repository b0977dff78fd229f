"""Hashing: values share a fixed number of rows; nothing is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.base import GraphFunction, apply_distinct, is_missing_tensor
from pipelines.features.transforms import TRANSFORMS
from recsys_attn.schema import PADDING_ID, RESERVED_IDS


@dataclass(frozen=True)
class HashTransform:
    """Ids are 2 + FarmHash64(text of the value) modulo `buckets`."""

    buckets: int

    @property
    def size(self) -> int:
        return RESERVED_IDS + self.buckets

    def apply(self, values: pa.Array) -> np.ndarray:
        return apply_distinct(self.graph(), values)

    def graph(self) -> GraphFunction:
        return lambda values: tf.where(
            is_missing_tensor(values), PADDING_ID, _hash(values, self.buckets)
        )

    def state(self) -> dict[str, Any]:
        return {"kind": "hash", "buckets": self.buckets}


def _hash(values: tf.Tensor, buckets: int) -> tf.Tensor:
    text = values if values.dtype == tf.string else tf.strings.as_string(values)
    return tf.cast(tf.strings.to_hash_bucket_fast(text, buckets), tf.int32) + RESERVED_IDS


@TRANSFORMS.register("hash")
@dataclass(frozen=True)
class HashFitter:
    """Nothing to learn: the state is None."""

    buckets: int

    def fit_batch(self, values: pa.Array) -> None:
        return None

    def merge(self, first: None, second: None) -> None:
        return None

    def finish(self, state: None) -> HashTransform:
        return HashTransform(self.buckets)

    def load(self, state: dict[str, Any]) -> HashTransform:
        return HashTransform(self.buckets)
