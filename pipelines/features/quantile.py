"""Quantile buckets: maps a number to the index of its bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.graph_transform import (
    GraphFunction,
    apply_graph,
    finite_numbers,
    is_missing_tensor,
)
from pipelines.features.sketches import merged, quantiles, sketch
from pipelines.features.transforms import TRANSFORMS
from recsys_attn.schema import PADDING_ID, RESERVED_IDS


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
    """Fits the quantiles that bound buckets of equal shares."""

    buckets: int

    def fit_batch(self, values: pa.Array) -> bytes:
        return sketch(finite_numbers(values))

    def merge(self, first: bytes, second: bytes) -> bytes:
        return merged(first, second)

    def finish(self, state: bytes) -> QuantileTransform:
        shares = np.arange(1, self.buckets) / self.buckets
        return QuantileTransform(np.unique(quantiles(state, shares)))

    def load(self, state: dict[str, Any]) -> QuantileTransform:
        return QuantileTransform(np.array(state["boundaries"]))
