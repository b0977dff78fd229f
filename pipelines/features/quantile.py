"""Quantile buckets: maps a number to the index of its bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.graph_transform import (
    GraphFunction,
    apply_graph,
    finite_numbers,
    is_missing_tensor,
)
from pipelines.features.transforms import TRANSFORMS
from recsys_attn.schema import PADDING_ID, RESERVED_IDS

_COMPRESSION = 2000  # t-digest's k: an error of rank of 0.1 % on a million log-normal values


class QuantileTransform:
    """Ids are 2 + the number of boundaries at or below the value."""

    def __init__(self, boundaries: np.ndarray) -> None:
        self.boundaries = np.asarray(boundaries, "float32")

    @property
    def size(self) -> int:
        return RESERVED_IDS + len(self.boundaries) + 1

    def apply(self, values: pa.Array) -> np.ndarray:
        return apply_graph(self.graph(), values)

    def graph(self) -> GraphFunction:
        boundaries = tf.constant(self.boundaries)

        def function(values: tf.Tensor) -> tf.Tensor:
            missing = is_missing_tensor(values)
            flat = tf.reshape(tf.where(missing, 0.0, values), [-1])
            ids = tf.searchsorted(boundaries, flat, side="right") + RESERVED_IDS
            return tf.where(missing, PADDING_ID, tf.reshape(ids, tf.shape(values)))

        return function

    def state(self) -> dict[str, Any]:
        return {"kind": "quantile", "boundaries": self.boundaries.tolist()}


@TRANSFORMS.register("quantile")
@dataclass(frozen=True)
class QuantileFitter:
    """Sketches the distribution with a t-digest, which is mergeable and deterministic.

    The state is the serialized sketch, because sketches merge differently after serialization;
    so states of other processes give the same boundaries.
    """

    buckets: int

    def fit_batch(self, values: pa.Array) -> bytes:
        digest = datasketches.tdigest_double(_COMPRESSION)
        digest.update(finite_numbers(values))
        return digest.serialize()

    def merge(self, first: bytes, second: bytes) -> bytes:
        digest = datasketches.tdigest_double(_COMPRESSION)
        digest.merge(datasketches.tdigest_double.deserialize(first))
        digest.merge(datasketches.tdigest_double.deserialize(second))
        return digest.serialize()

    def finish(self, state: bytes) -> QuantileTransform:
        digest = datasketches.tdigest_double.deserialize(state)
        if digest.is_empty():
            return QuantileTransform(np.empty(0))
        shares = np.arange(1, self.buckets) / self.buckets
        boundaries = np.array([digest.get_quantile(share) for share in shares], "float32")
        return QuantileTransform(np.unique(boundaries))

    def load(self, state: dict[str, Any]) -> QuantileTransform:
        return QuantileTransform(np.array(state["boundaries"]))
