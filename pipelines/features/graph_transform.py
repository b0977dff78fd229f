"""Common parts of transforms: raw values as tensors, and graphs that are applied to columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features.transforms import TRANSFORMS as TRANSFORMS
from pipelines.features.transforms import GraphFunction as GraphFunction
from recsys_attn.schema import PADDING_ID
from serving.state.columns.missing import MISSING_INT


class Chained(tf.Module):
    """Functions of a graph, one after the other; the tables that they hold are exported.

    Args:
        functions: Each takes the result of the one before.
    """

    def __init__(self, *functions: GraphFunction) -> None:
        super().__init__()
        self.functions = list(functions)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        for function in self.functions:
            values = function(values)
        return values


class GraphTransform:
    """A base for transforms to ids whose `apply` runs their `graph`, once per distinct value."""

    def graph(self) -> GraphFunction:
        """A function of a raw tensor."""
        raise NotImplementedError(f"{type(self).__name__} must define `graph`")

    def apply(self, values: pa.Array) -> np.ndarray:
        """The ids of raw values."""
        return apply_distinct(self.graph(), values)


def apply_graph(function: GraphFunction, values: pa.Array) -> np.ndarray:
    """Runs the graph's function on a column, for results equal to the last digit."""
    with tf.device("CPU"):
        return function(raw_tensor(values)).numpy()


def apply_distinct(function: GraphFunction, values: pa.Array) -> np.ndarray:
    """Runs the graph's function once for each distinct value."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    ids = np.append(apply_graph(function, values.dictionary), np.int32(PADDING_ID))
    indices = values.indices
    if indices.null_count:
        indices = indices.fill_null(len(values.dictionary))
    return ids.take(indices.to_numpy())


def raw_tensor(values: pa.Array) -> tf.Tensor:
    """Values as a client sends them, with missing values in place of nulls."""
    if pa.types.is_string(values.type):
        return tf.constant(values.fill_null("").cast(pa.binary()).to_pylist(), tf.string)
    return tf.constant(raw_numbers(values))


def raw_numbers(numbers: pa.Array) -> np.ndarray:
    """Numbers as a client sends them; a view if none is missing."""
    if pa.types.is_integer(numbers.type) and numbers.null_count:
        numbers = numbers.fill_null(MISSING_INT)
    return numbers.to_numpy(zero_copy_only=False)


def finite_numbers(values: pa.Array) -> np.ndarray:
    """The numbers that are not missing, in float64, for fitting."""
    numbers = values.to_numpy(zero_copy_only=False)
    return numbers[np.isfinite(numbers)].astype("float64")


def is_missing_tensor(values: tf.Tensor) -> tf.Tensor:
    """Mask of the missing values of a raw tensor; NaN and infinity count as missing."""
    if values.dtype == tf.string:
        return tf.equal(values, "")
    if values.dtype.is_floating:
        return tf.logical_not(tf.math.is_finite(values))
    return tf.equal(values, tf.constant(MISSING_INT, values.dtype))
