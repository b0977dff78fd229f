"""ESMM: the probability of a conversion as a product along the way to it."""

from __future__ import annotations

from typing import Literal

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Count, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.task_order import require_comparable, require_several
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.ordered import ProbabilityChain
from recsys_attn.schema import Schema


@MODELS.register("esmm")
def esmm(
    schema: Schema,
    *,
    width: Count = 18,
    history_pooling: Literal["max", "mean"] = "mean",
    tower_units: Sizes = (360, 200, 80),
    dropout: Share = 0.0,
) -> RankingModel:
    """Entire Space Multi-Task Model: `p(click and buy) = p(click) p(buy | click)`.

    A tower of each task gives the probability of the task given the one before; the output of task
    k is the product of the first k. So all tasks are learned from all impressions, also the rate of
    purchases after a click, which is never learned from clicks alone.

    - The tasks of the schema stand in their order, such as click, cart, buy.
    - The label of a task is 1 where it and all before it have happened, over all impressions: that
    of `buy` is 0, not null, where nothing was clicked. `recsys-attn` checks all rows
    before a training.
    - A mask says what is an impression, so it is the same for all tasks. One of clicks for `buy`
    would teach the product what the second factor is.
    - The rate after a click is a quotient: `sigmoid(logits["buy"]) / sigmoid(logits["click"])`, of
    the logits of a call, as `calibrate` changes each task by itself.

    Source: Ma et al., "Entire Space Multi-Task Model: An Effective Approach for Estimating
    Post-Click Conversion Rate", SIGIR 2018, arXiv 1804.07931.

    Args:
        schema: A fitted schema with at least two tasks.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of the towers.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: There is one task only, or tasks have different masks or a loss without
            probabilities.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import esmm
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> model = esmm(Schema((Categorical("item", size=7),), (Task("click"), Task("buy"))), width=4)
    >>> scores = model.probabilities({"item": np.array([[2, 3, 4]])})
    >>> bool(np.all(np.asarray(scores["buy"]) < np.asarray(scores["click"])))
    True
    """
    require_several("esmm", schema)
    require_comparable("esmm", schema)
    tasks = [task.name for task in schema.tasks]
    head = TaskHeads(tasks, tower_units, dropout=dropout, joint=ProbabilityChain())
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=head,
        ),
        name="esmm",
    )
