"""What a feature transform is: fitted in mergeable parts, applied outside and inside the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from recsys_attn.schema import PADDING_ID

MISSING_INT = np.iinfo("int64").min  # a tensor has no null: what stands for it in int64 inputs
GraphFunction = Callable[[Any], Any]


class Fitter(Protocol):
    """Fits a transform: `finish(merge(fit_batch(a), fit_batch(b)))`, in any order of batches."""

    def fit_batch(self, values: pa.Array) -> Any:
        """The state of one batch of values."""

    def merge(self, first: Any, second: Any) -> Any:
        """The state of both batches together."""

    def finish(self, state: Any) -> Transform:
        """The transform that the whole data's state asks for."""


class Transform(Protocol):
    """A fitted transform. `apply` and the function of `graph` give the same numbers."""

    def apply(self, values: pa.Array) -> np.ndarray:
        """Raw values to ids (int32; 0 where missing) or numbers (float32; NaN where missing)."""

    def graph(self) -> GraphFunction:
        """A function of a raw tensor, for inside an exported graph; it holds its lookup tables."""

    def state(self) -> dict[str, Any]:
        """Plain data for JSON, with a pyarrow array under `"values"` where there is one."""


def apply_graph(function: GraphFunction, values: pa.Array) -> np.ndarray:
    """The graph's own function outside the graph, so that both give the same to the last digit."""
    with tf.device("CPU"):
        return function(raw_tensor(values)).numpy()


def apply_distinct(function: GraphFunction, values: pa.Array) -> np.ndarray:
    """The ids that the graph's own function gives, computed once for each distinct value."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    ids = np.append(apply_graph(function, values.dictionary), np.int32(PADDING_ID))
    indices = values.indices
    if indices.null_count:
        indices = indices.fill_null(len(values.dictionary))
    return ids.take(indices.to_numpy())


def raw_tensor(values: pa.Array) -> tf.Tensor:
    """Values as a client sends them: a tensor has no null, but values that stand for it."""
    if pa.types.is_string(values.type):
        return tf.constant(values.fill_null("").cast(pa.binary()).to_pylist(), tf.string)
    return tf.constant(raw_values(values))


def raw_values(numbers: pa.Array) -> np.ndarray:
    """Numbers as a client sends them; a view where none is missing."""
    if pa.types.is_integer(numbers.type) and numbers.null_count:
        numbers = numbers.fill_null(MISSING_INT)
    return numbers.to_numpy(zero_copy_only=False)


def finite_numbers(values: pa.Array) -> np.ndarray:
    """The numbers that are not missing, in float64: what is fitted on."""
    numbers = values.to_numpy(zero_copy_only=False)
    return numbers[np.isfinite(numbers)].astype("float64")


def is_missing(values: pa.Array) -> np.ndarray:
    """Where a string or an integer is null, or what stands for null in a tensor."""
    missing = "" if pa.types.is_string(values.type) else MISSING_INT
    return pc.fill_null(pc.equal(values, missing), True).to_numpy(zero_copy_only=False)


def is_missing_tensor(values: tf.Tensor) -> tf.Tensor:
    """Where a raw tensor has no value: NaN and infinite numbers count as missing too."""
    if values.dtype == tf.string:
        return tf.equal(values, "")
    if values.dtype.is_floating:
        return tf.logical_not(tf.math.is_finite(values))
    return tf.equal(values, tf.constant(MISSING_INT, values.dtype))
