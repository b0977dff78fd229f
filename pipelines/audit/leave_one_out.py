"""The loss of a model's logits without single fields and events, and without several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.units import Inputs, Units
from recsys_attn.models import RankingModel

Floats = NDArray[np.float64]
RESOLUTION = 1e-5  # of a logit: a smaller change is rounding, and none


class Logits:
    """Logits of rows with one candidate each, by task.

    Args:
        model: The trained model.
    """

    def __init__(self, model: RankingModel) -> None:
        self.tasks = [task.name for task in model.schema.tasks]
        self._model = model
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, inputs: Inputs) -> Floats:
        """Returns the logits (tasks, rows)."""
        if self._compiled is None:
            spec = {
                name: tf.TensorSpec([None, *array.shape[1:]], array.dtype)
                for name, array in inputs.items()
            }
            # Many calls of one shape: compiled, each takes a third of the time.
            self._compiled = tf.function(self._logits, input_signature=[spec], autograph=False)
        tensors = {name: tf.convert_to_tensor(array) for name, array in inputs.items()}
        return self._compiled(tensors).numpy().astype(np.float64)

    def of_model(self, model: RankingModel, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The logits (rows, 1) by task."""
        return model(inputs, training=False)

    def _logits(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = self.of_model(self._model, dict(inputs))
        return tf.stack([tf.cast(logits[task][:, 0], tf.float32) for task in self.tasks])


def leave_one_out(logits: Callable[[Inputs], Floats], whole: Floats, units: Units) -> Floats:
    """The loss of the logits without each of the units: `f(x) - f(x without u)`.

    Args:
        logits: From inputs to logits (tasks, rows).
        whole: The logits of the rows as they are.
        units: The fields, or the events of a history.

    Returns:
        (tasks, rows, U): 0 for units that a row does not have, and for changes of less than 1e-5.
    """
    lost = np.zeros((*whole.shape, len(units.names)))
    for unit in np.flatnonzero(units.there.any(axis=0)):
        removed = np.zeros_like(units.there)
        removed[:, unit] = units.there[:, unit]
        lost[..., unit] = (whole - logits(units.without(removed))) * removed[:, unit]
    return np.where(np.abs(lost) < RESOLUTION, 0.0, lost)


def deletion(
    logits: Callable[[Inputs], Floats],
    whole: Floats,
    units: Units,
    relevance: Floats,
    shares: tuple[float, ...],
    rng: np.random.Generator,
) -> Floats:
    """The loss of the logits as units are taken away, the most relevant first.

    Args:
        logits: From inputs to logits (tasks, rows).
        whole: The logits of the rows as they are.
        units: The fields, or the events of a history.
        relevance: (rows, U); equal ones go in random order.
        shares: Shares of a row's units that are away.
        rng: Draws the order of equal ones.

    Returns:
        (tasks, rows, shares).
    """
    lost = [
        whole - logits(units.without(removed)) for removed in _gone(units, relevance, shares, rng)
    ]
    return np.stack(lost, axis=-1)


def _gone(
    units: Units, relevance: Floats, shares: tuple[float, ...], rng: np.random.Generator
) -> Iterator[NDArray[np.bool_]]:
    """The units that are away at each share."""
    falling = np.where(units.there, -relevance, np.inf)
    order = np.lexsort((rng.random(falling.shape), falling), axis=1)
    rank = np.argsort(order, axis=1)
    count = units.there.sum(axis=1, keepdims=True)
    for share in shares:
        yield units.there & (rank < np.maximum(np.rint(share * count), 1))
