"""The generative objective: actions from items, and items from actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.selecting import places_of
from recsys_attn.models.sequence_model import known_items
from recsys_attn.objectives.attributes import cross_entropy
from recsys_attn.objectives.base import OBJECTIVES, Inputs, Loss, Objective, require_causal
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("actions")
class Actions(Objective):
    """Predicts the user's action on each item, from the events before it and the item.

    `item_1, action_1, item_2, action_2, ...` is one sequence; `loss = mean over events of the
    cross-entropy of softmax(W h)` with the state h at the item. With `next_item` beside it, which
    predicts from the states at actions, it is the generative form of HSTU.

    Source: Zhai et al., "Actions Speak Louder than Words", ICML 2024, arXiv 2402.17152,
    section 2.2.

    Args:
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: The model has no actions between its items.

    Example:

    >>> from recsys_attn.objectives import Actions
    >>> Actions(weight=0.5).weight
    0.5
    """

    def __init__(self, *, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        self.classifier: Any = None

    def require_fit(self, model: Any) -> None:
        if model.action is None:
            raise ValueError(
                "The objective 'actions' needs a model whose items and actions are one sequence: "
                "give `sasrec` or `hstu` the option `action`, with the name of the column. "
                f"Received: model={model.name!r}, action=None"
            )
        require_causal(model, "actions")

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        self.classifier = keras.layers.Dense(sizes[model.action], dtype="float32")
        self.classifier.build((None, model.width))

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        labels = ops.cast(inputs[model.action], "int32")
        states = model.encode(model.events(inputs), training=True)[:, ::2]
        places, weights = places_of(known_items(labels))
        states = ops.take(ops.reshape(states, (-1, states.shape[-1])), places, axis=0)
        labels = ops.take(ops.reshape(labels, (-1,)), places)
        return cross_entropy(self.classifier(states), labels, weights)
