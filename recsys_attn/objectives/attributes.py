"""The objectives of attributes: the category of an item, seen or hidden, for example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.selecting import places_of
from recsys_attn.checks import require_share
from recsys_attn.models.sequence_model import known_items
from recsys_attn.objectives.base import (
    OBJECTIVES,
    Inputs,
    Loss,
    Objective,
    require_both_directions,
)
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("attributes")
class Attributes(Objective):
    """Predicts an attribute of items, such as the category, as S3-Rec.

    Without `hidden` from each item's vector, `softmax(W e_i)` (associated attributes); with it from
    the states of hidden events too, `softmax(W h_s)` (masked attributes).

    Source: Zhou et al., "S3-Rec: Self-Supervised Learning for Sequential Recommendation with Mutual
    Information Maximization", CIKM 2020, arXiv 2008.07873, sections 4.2.1 and 4.2.3. The paper has
    several attributes of an item, and a cross-entropy of each.

    Args:
        column: The sequence with the attribute of each event; the model need not see it.
        hidden: Probability with which an event is hidden and its attribute predicted from both
            sides. 0 for attributes of items alone, which fit every encoder.
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: `hidden` is given, and the encoder is causal.

    Example:

    >>> from recsys_attn.objectives import Attributes
    >>> Attributes(column="category", weight=0.2).column
    'category'
    """

    def __init__(
        self, *, column: str, hidden: float = 0.0, weight: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(weight=weight, **kwargs)
        require_share("hidden", hidden)
        self.column, self.hidden = column, hidden
        self.draws = keras.random.SeedGenerator()
        self.of_item: Any = None
        self.of_state: Any = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def require_fit(self, model: Any) -> None:
        if self.hidden:
            require_both_directions(model, "attributes")

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        size = sizes[self.column]
        self.of_item = keras.layers.Dense(size, dtype="float32")
        self.of_item.build((None, model.output_layer.width))
        if self.hidden:
            self.of_state = keras.layers.Dense(size, dtype="float32")
            self.of_state.build((None, model.width))

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        items = ops.cast(inputs[model.item], "int32")
        labels = ops.cast(inputs[self.column], "int32")
        known = ops.logical_and(known_items(items), known_items(labels))
        places, weights = places_of(known)
        vectors = model.rows(ops.take(ops.reshape(items, (-1,)), places))[0]
        flat = ops.reshape(labels, (-1,))
        loss = cross_entropy(self.of_item(vectors), ops.take(flat, places), weights)
        if not self.hidden:
            return loss
        drawn = keras.random.uniform(ops.shape(items), dtype="float32", seed=self.draws)
        hidden = ops.logical_and(known, drawn < self.hidden)
        events = model.events(inputs)
        vectors = model.masked(events.vectors, hidden)
        states = model.encode(events._replace(vectors=vectors), training=True)
        places, weights = places_of(hidden)
        states = ops.take(ops.reshape(states, (-1, states.shape[-1])), places, axis=0)
        more = cross_entropy(self.of_state(states), ops.take(flat, places), weights)
        return Loss(loss.total + more.total, loss.count + more.count)


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Loss:
    """Returns the loss of predicting a label (P,) from logits (P, labels)."""
    logits = ops.cast(logits, "float32")
    right = ops.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    losses = ops.logsumexp(logits, axis=1) - right
    return Loss(ops.sum(losses * weights), ops.sum(weights))
