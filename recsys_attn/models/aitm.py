"""AITM: towers of ordered tasks, each of which passes on what the next may use."""

from __future__ import annotations

from typing import Literal

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Count, Factor, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.task_order import require_comparable, require_several
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.ordered import OrderPenalty
from recsys_attn.multitask.transfer import AdaptiveTransfer
from recsys_attn.schema import Schema


@MODELS.register("aitm")
def aitm(
    schema: Schema,
    *,
    width: Count = 5,
    history_pooling: Literal["max", "mean"] = "mean",
    tower_units: Sizes = (128, 64, 32),
    dropout: Share = 0.1,
    order_penalty: Factor = 0.6,
) -> RankingModel:
    """Adaptive Information Transfer Multi-task: each tower learns from the one before.

    The tasks of the schema stand in their order, such as click, cart, buy. Attention weighs what
    the tower of the task before passes on against the task's own tower (`AdaptiveTransfer`), and a
    penalty keeps a task from being more probable than the one before (`OrderPenalty`). In contrast
    to `esmm` the order is not certain. `gate/<task>` of `explain` has the two weights: of what is
    passed on, and of the task's own tower.

    The penalty compares the tasks over all impressions, as `esmm` does: the label of a task is 1
    where it and all before it have happened, else 0 and not null, and a mask is that of all tasks.

    Source: Xi et al., "Modeling the Sequential Dependence among Audience Multi-step Conversions
    with Multi-task Learning in Targeted Display Advertising", KDD 2021, arXiv 2105.08489.

    Args:
        schema: A fitted schema with at least two tasks.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of the towers.
        order_penalty: Weight of the penalty, a mean over candidates; 0 for none, and for labels of
            other rows. Raise it if the order is broken in the predictions.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: There is one task only; with the penalty, tasks have different masks or a loss
            without probabilities.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import aitm
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> model = aitm(Schema((Categorical("item", size=7),), (Task("click"), Task("buy"))))
    >>> _, explanation = model.explain({"item": np.array([[2, 3, 4]])})
    >>> tuple(explanation["gate/buy"].shape)
    (1, 3, 2)
    """
    require_several("aitm", schema)
    if order_penalty:
        require_comparable("aitm", schema)
    tasks = [task.name for task in schema.tasks]
    transfer = AdaptiveTransfer(len(tasks), tower_units, dropout=dropout)
    penalty = OrderPenalty(order_penalty)
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(tasks, experts=transfer, joint=penalty),
        ),
        name="aitm",
    )
