"""The discriminating objective: which events were replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.models.sequence_model import known_items
from recsys_attn.objectives.base import OBJECTIVES, Inputs, Loss, Objective
from recsys_attn.random_integers import random_below
from recsys_attn.schema import RESERVED_IDS
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("replaced_item")
class ReplacedItem(Objective):
    """Replaces items by drawn ones, and predicts for every event whether it was, as ELECTRA.

    `loss = mean over events of the cross-entropy of sigmoid(w . h + b)`. Every event teaches, and
    not only the hidden ones. It has no score of items: use it beside another objective, or for the
    encoder of a ranking model.

    Sources: Clark et al., "ELECTRA", ICLR 2020, arXiv 2003.10555; over items: Souza Pereira Moreira
    et al., "Transformers4Rec", RecSys 2021.

    Args:
        share: Probability with which an item is replaced, by one drawn uniformly.
        weight: Factor of the loss in the sum of all objectives.

    Example:

    >>> from recsys_attn.objectives import ReplacedItem
    >>> ReplacedItem(share=0.2).share
    0.2
    """

    def __init__(self, *, share: float = 0.15, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        require_number("share", share, above=0, below=1)
        self.share = share
        self.classifier = keras.layers.Dense(1, dtype="float32")
        self.draws = keras.random.SeedGenerator()

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        self.classifier.build((None, None, model.width))

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        items = ops.cast(inputs[model.item], "int32")
        known = known_items(items)
        others = model.size - RESERVED_IDS
        drawn = RESERVED_IDS + random_below(ops.shape(items), others, self.draws)
        chosen = keras.random.uniform(ops.shape(items), dtype="float32", seed=self.draws)
        mixed = ops.where(ops.logical_and(known, chosen < self.share), drawn, items)
        replaced = ops.cast(ops.not_equal(mixed, items), "float32")
        states = model.encode(model.events({**inputs, model.item: mixed}), training=True)
        states = states[:, model.per_event - 1 :: model.per_event]
        logits = self.classifier(ops.cast(states, "float32"))[..., 0]
        losses = ops.softplus(logits) - replaced * logits
        counted = ops.cast(known, "float32")
        return Loss(ops.sum(losses * counted), ops.sum(counted))
