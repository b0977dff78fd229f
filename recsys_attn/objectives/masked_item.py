"""The masked objective: hidden events from those on both sides."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number, require_share
from recsys_attn.models.sequence_model import known_items
from recsys_attn.objectives.base import (
    OBJECTIVES,
    CatalogueLoss,
    Inputs,
    Loss,
    Objective,
    item_loss,
    require_both_directions,
)
from recsys_attn.objectives.item_losses import ITEM_LOSSES
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("masked_item")
class MaskedItem(Objective):
    """Hides events behind a learned vector, and predicts their items, as BERT4Rec.

    Every history has at least one hidden event. In some of them it is the last one alone, as when
    the model is used.

    Source: Sun et al., "BERT4Rec", CIKM 2019, arXiv 1904.06690.

    Args:
        loss: As in `NextItem`.
        share: Probability with which an event is hidden.
        last: Share of the histories in which only the last event is hidden. The authors' code has
            one of eleven samples of this kind; raise it where histories are short.
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: The encoder is causal.

    Example:

    >>> from recsys_attn.objectives import MaskedItem
    >>> MaskedItem(share=0.3).share
    0.3
    """

    def __init__(
        self,
        *,
        loss: CatalogueLoss = "softmax",
        share: float = 0.2,
        last: float = 0.1,
        weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight=weight, **kwargs)
        require_number("share", share, above=0, below=1)
        require_share("last", last)
        self.loss = ITEM_LOSSES.get(loss)
        self.share, self.last = share, last
        self.draws = keras.random.SeedGenerator()

    def require_fit(self, model: Any) -> None:
        require_both_directions(model, "masked_item")

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        items = ops.cast(inputs[model.item], "int32")
        events = model.events(inputs)
        hidden = self.hidden(events.present)
        vectors = model.masked(events.vectors, hidden)
        states = model.encode(events._replace(vectors=vectors), training=True)
        where = ops.logical_and(hidden, known_items(items))
        return item_loss(self.loss, model, states, items, where, counts, self.draws)

    def hidden(self, present: Tensor) -> Tensor:
        """Returns the mask (B, S) of the hidden events."""
        shape = ops.shape(present)
        drawn = keras.random.uniform(shape, dtype="float32", seed=self.draws)
        drawn = ops.where(present, drawn, 2.0)
        least = ops.min(drawn, axis=1, keepdims=True)
        some = ops.logical_or(drawn < self.share, drawn <= least)
        count = ops.sum(ops.cast(present, "int32"), axis=1, keepdims=True)
        at_end = ops.arange(shape[1])[None] == count - 1
        only_last = keras.random.uniform((shape[0], 1), dtype="float32", seed=self.draws)
        return ops.logical_and(present, ops.where(only_last < self.last, at_end, some))
