"""The causal objective: each event from those before it."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.models.sequence_model import known_items, shifted
from recsys_attn.objectives.base import (
    OBJECTIVES,
    CatalogueLoss,
    Inputs,
    Loss,
    Objective,
    item_loss,
    require_causal,
)
from recsys_attn.objectives.item_losses import ITEM_LOSSES
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("next_item")
class NextItem(Objective):
    """Predicts the item of every event from the events before it, as SASRec and GPT.

    `loss = mean over b, s of l(h_(b, s), item_(b, s + 1))`

    Sources: Kang and McAuley, ICDM 2018, arXiv 1808.09781; Radford et al., "Improving Language
    Understanding by Generative Pre-Training", 2018.

    Args:
        loss: The loss over the catalogue: a name or a config of `ITEM_LOSSES`. `"softmax"` is the
            best where the catalogue has up to about 100,000 items; `"sampled_softmax"` costs the
            same for any number of them.
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: The encoder sees later events, or has statistics of a batch.

    Example:

    >>> from recsys_attn.objectives import NextItem
    >>> NextItem(loss={"class_name": "sampled_softmax", "config": {"negatives": 64}}).weight
    1.0
    """

    def __init__(
        self, *, loss: CatalogueLoss = "softmax", weight: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(weight=weight, **kwargs)
        self.loss = ITEM_LOSSES.get(loss)
        self.draws = keras.random.SeedGenerator()

    def require_fit(self, model: Any) -> None:
        require_causal(model, "next_item")

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        events, following = shifted(inputs, model.item)
        states = model.encode(model.events(events), training=True)
        states = states[:, model.per_event - 1 :: model.per_event]
        where = known_items(following)
        return item_loss(self.loss, model, states, following, where, counts, self.draws)
