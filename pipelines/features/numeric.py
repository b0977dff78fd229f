"""Numbers: log1p and standardising, in the schema's order, and the quantiles of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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

_ROUNDING = 1e-12  # of the mean of equal numbers, relative to it
_LARGEST = 1e6  # magnitude of a transformed number


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations; merged by Chan's formula."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def merged(self, other: Moments) -> Moments:
        count = self.count + other.count
        if not count:
            return self
        delta = other.mean - self.mean
        mean = self.mean + delta * other.count / count
        squares = self.squares + other.squares + delta**2 * self.count * other.count / count
        return Moments(count, mean, squares)


@dataclass(frozen=True)
class NumericTransform:
    """Applies `steps`: `log1p` is sign(x) log(1 + |x|), `standardise` is (x - mean) / deviation.

    The steps are those of float64, as a Unix time less its mean would lose its values in float32.
    The result is clipped to [-1e6, 1e6].

    Args:
        steps: The steps in their order.
        mean: Mean of the training rows.
        deviation: Their deviation.
        boundaries: Quantiles of the results of the training rows, if the model's encoding needs
            them; they change no result.
    """

    steps: tuple[str, ...]
    mean: float = 0.0
    deviation: float = 1.0
    boundaries: tuple[float, ...] | None = None

    def apply(self, values: pa.Array) -> np.ndarray:
        return apply_graph(self._compiled, values)

    def graph(self) -> GraphFunction:
        def function(values: tf.Tensor) -> tf.Tensor:
            missing = is_missing_tensor(values)
            numbers = tf.cast(tf.where(missing, 0.0, values), tf.float64)
            for step in self.steps:
                if step == "log1p":
                    numbers = tf.sign(numbers) * tf.math.log1p(tf.abs(numbers))
                else:
                    numbers = (numbers - self.mean) * (1.0 / self.deviation)
            # Products of huge numbers would overflow inside the model.
            numbers = tf.clip_by_value(numbers, -_LARGEST, _LARGEST)
            return tf.where(missing, np.float32(np.nan), tf.cast(numbers, tf.float32))

        return function

    @cached_property
    def _compiled(self) -> GraphFunction:
        # A traced function: TensorFlow warns of several untraced ones with the same code.
        signature = [tf.TensorSpec([None], tf.float32)]
        return tf.function(self.graph(), input_signature=signature).get_concrete_function()

    def state(self) -> dict[str, Any]:
        return {
            "kind": "numeric",
            "steps": list(self.steps),
            "mean": self.mean,
            "deviation": self.deviation,
            "boundaries": None if self.boundaries is None else list(self.boundaries),
        }


State = tuple[Moments, bytes | None]


@TRANSFORMS.register("numeric")
@dataclass(frozen=True)
class NumericFitter:
    """Fits mean and deviation of the numbers that enter `standardise`, and quantiles.

    Args:
        steps: The steps in their order.
        shares: The shares of the training rows below each of the boundaries.
    """

    steps: tuple[str, ...]
    shares: tuple[float, ...] = ()

    def fit_batch(self, values: pa.Array) -> State:
        numbers = finite_numbers(values)
        # The steps keep the order of numbers, so those that enter have the same quantiles.
        digest = sketch(numbers) if self.shares else None
        for step in self.steps:
            if step == "standardise":
                break
            numbers = np.sign(numbers) * np.log1p(np.abs(numbers))
        if not len(numbers):
            return Moments(), digest
        mean = float(numbers.mean())
        return Moments(len(numbers), mean, float(np.square(numbers - mean).sum())), digest

    def merge(self, first: State, second: State) -> State:
        (moments, digest), (others, other) = first, second
        return moments.merged(others), merged(digest, other) if digest and other else None

    def finish(self, state: State) -> NumericTransform:
        moments, digest = state
        deviation = (moments.squares / moments.count) ** 0.5 if moments.count else 0.0
        # A constant column deviates only by rounding: it becomes zeros, not huge numbers.
        if deviation <= _ROUNDING * abs(moments.mean):
            deviation = 1.0
        transform = NumericTransform(self.steps, moments.mean, deviation)
        if digest is None:
            return transform
        boundaries = np.unique(transform.apply(pa.array(quantiles(digest, self.shares))))
        return replace(transform, boundaries=tuple(boundaries.tolist()))

    def load(self, state: dict[str, Any]) -> NumericTransform:
        boundaries = state.get("boundaries")  # none in a run of an older version
        return NumericTransform(
            self.steps,
            state["mean"],
            state["deviation"],
            None if boundaries is None else tuple(boundaries),
        )
