"""Hashing: values share a fixed number of rows; nothing is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.base import GraphFunction, is_missing, is_missing_tensor
from recsys_attn.schema import PADDING_ID, RESERVED_IDS


@dataclass(frozen=True)
class HashTransform:
    """Ids are 2 + FarmHash64(text of the value) modulo `buckets`."""

    buckets: int

    @property
    def size(self) -> int:
        return RESERVED_IDS + self.buckets

    def apply(self, values: pa.Array) -> np.ndarray:
        # TensorFlow's own hash on the distinct values: the same function as in the graph.
        encoded = values.dictionary_encode()
        distinct = tf.constant(encoded.dictionary.to_pylist(), _tensor_type(values.type))
        hashed = _hash(distinct, self.buckets).numpy() if len(encoded.dictionary) else np.zeros(1)
        indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        ids = hashed[indices].astype("int32")
        ids[is_missing(values)] = PADDING_ID
        return ids

    def graph(self) -> GraphFunction:
        return lambda values: tf.where(
            is_missing_tensor(values), PADDING_ID, _hash(values, self.buckets)
        )

    def state(self) -> dict[str, Any]:
        return {"kind": "hash", "buckets": self.buckets}


def _hash(values: tf.Tensor, buckets: int) -> tf.Tensor:
    text = values if values.dtype == tf.string else tf.strings.as_string(values)
    return tf.cast(tf.strings.to_hash_bucket_fast(text, buckets), tf.int32) + RESERVED_IDS


def _tensor_type(kind: pa.DataType) -> tf.DType:
    return tf.string if pa.types.is_string(kind) else tf.int64


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
