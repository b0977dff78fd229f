"""Transforms that fit nothing: hashing, and ages of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.graph_transform import (
    GraphFunction,
    GraphTransform,
    apply_graph,
    is_missing_tensor,
)
from pipelines.features.transforms import TRANSFORMS
from recsys_attn.schema import PADDING_ID, RESERVED_IDS

_OLDEST = 2**31 - 2 * 128  # seconds, 68 years; float32 has it exactly


class _UnfittedFitter:
    """The base class of fitters with nothing to learn: the state is None."""

    def fit_batch(self, values: pa.Array) -> None:
        return None

    def merge(self, first: None, second: None) -> None:
        return None


@dataclass(frozen=True)
class HashTransform(GraphTransform):
    """Ids are 2 + FarmHash64(text of the value) modulo `buckets`."""

    buckets: int

    @property
    def size(self) -> int:
        return RESERVED_IDS + self.buckets

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
class HashFitter(_UnfittedFitter):
    """Makes a `HashTransform`."""

    buckets: int

    def finish(self, state: None) -> HashTransform:
        return HashTransform(self.buckets)

    def load(self, state: dict[str, Any]) -> HashTransform:
        return HashTransform(self.buckets)


class AgeTransform:
    """Ids are 2 + the seconds, rounded; negative ones count as 0, NaN and infinity are missing."""

    def apply(self, values: pa.Array) -> np.ndarray:
        return apply_graph(self.graph(), values)

    def graph(self) -> GraphFunction:
        def function(values: tf.Tensor) -> tf.Tensor:
            missing = is_missing_tensor(values)
            seconds = tf.where(missing, tf.zeros_like(values), values)
            seconds = tf.clip_by_value(seconds, 0, _OLDEST)
            if seconds.dtype.is_floating:
                seconds = tf.round(seconds)
            return tf.where(missing, PADDING_ID, tf.cast(seconds, tf.int32) + RESERVED_IDS)

        return function

    def state(self) -> dict[str, Any]:
        return {"kind": "age"}


@TRANSFORMS.register("age")
@dataclass(frozen=True)
class AgeFitter(_UnfittedFitter):
    """Makes an `AgeTransform`."""

    def finish(self, state: None) -> AgeTransform:
        return AgeTransform()

    def load(self, state: dict[str, Any]) -> AgeTransform:
        return AgeTransform()
