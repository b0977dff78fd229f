"""The objective in any order: events from those before them in a drawn order."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.models.sequence_model import known_items
from recsys_attn.objectives.base import (
    OBJECTIVES,
    CatalogueLoss,
    Inputs,
    Loss,
    Objective,
    item_loss,
)
from recsys_attn.objectives.item_losses import ITEM_LOSSES
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("permutation")
class Permutation(Objective):
    """Predicts the last events of a drawn order from those before them in it, as XLNet.

    The order is drawn anew for each history and step; places stay those of the sequence. At use the
    next item comes last in the order.

    Source: Yang et al., "XLNet", NeurIPS 2019, arXiv 1906.08237, sections 2.2 and 2.3.

    Args:
        loss: As in `NextItem`.
        share: Share of a history's events that are predicted, at least one. The paper has about a
            sixth to a seventh; more teach faster, from fewer events each.
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: The model has no stream of queries.

    Example:

    >>> from recsys_attn.objectives import Permutation
    >>> Permutation(share=0.5).share
    0.5
    """

    def __init__(
        self,
        *,
        loss: CatalogueLoss = "softmax",
        share: float = 0.3,
        weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight=weight, **kwargs)
        require_number("share", share, above=0, below=1)
        self.loss = ITEM_LOSSES.get(loss)
        self.share = share
        self.draws = keras.random.SeedGenerator()

    def require_fit(self, model: Any) -> None:
        if model.appends != "query":
            raise ValueError(
                "The objective 'permutation' predicts from a stream of queries. Use the model "
                f"'xlnet', or another objective. Received: model={model.name!r}"
            )

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        items = ops.cast(inputs[model.item], "int32")
        events = model.events(inputs)
        ranks, predicted = self.order(events.present)
        states = model.query_states(events, ranks, training=True)
        where = ops.logical_and(predicted, known_items(items))
        return item_loss(self.loss, model, states, items, where, counts, self.draws)

    def order(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Returns a random order, the rank (B, S) of each event, and the mask of predicted ones.

        The events that are not predicted have rank 0: they see each other.
        """
        drawn = keras.random.uniform(ops.shape(present), dtype="float32", seed=self.draws)
        drawn = ops.where(present, drawn, 2.0)
        ranks = ops.argsort(ops.argsort(drawn, axis=1), axis=1)
        count = ops.sum(ops.cast(present, "int32"), axis=1, keepdims=True)
        least = ops.cast(ops.ceil(self.share * ops.cast(count, "float32")), "int32")
        first = count - least
        predicted = ops.logical_and(present, ranks >= first)
        return ops.where(predicted, ranks - first + 1, 0), predicted
