"""PLE and CGC: experts of each task beside shared ones."""

from __future__ import annotations

from typing import Literal

from recsys_attn.checks import require_sizes
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Count, Factor, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.progressive import ProgressiveExperts
from recsys_attn.schema import Schema


@MODELS.register("ple")
def ple(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    num_layers: Count = 2,
    task_experts: Count = 2,
    shared_experts: Count = 2,
    expert_units: Sizes = (128, 64),
    tower_units: Sizes = (32,),
    dropout: Share = 0.0,
    balance: Factor = 0.0,
) -> RankingModel:
    """Progressive Layered Extraction over the concatenated embeddings; CGC with one layer.

    Source: Tang et al., "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model
    for Personalized Recommendations", RecSys 2020.

    Args:
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        num_layers: Layers of experts; 1 is Customized Gate Control (CGC).
        task_experts: Experts of each task in a layer.
        shared_experts: Shared experts in a layer. More of them for tasks that are much alike.
        expert_units: Hidden units of an expert.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of experts and towers.
        balance: Factor of the penalty on experts of the last layer that are used unequally. Raise
            it to 0.01 or 0.1 where one of them has died. Defaults to 0: none.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has no `size` yet, or an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import ple
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"), Task("buy")))
    >>> model = ple(schema, width=4, expert_units=(8,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["buy"].shape)
    (1, 3)
    """
    require_sizes("tower_units", tower_units)
    tasks = [task.name for task in schema.tasks]
    experts = ProgressiveExperts(
        len(tasks), num_layers, task_experts, shared_experts, expert_units, dropout=dropout
    )
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(tasks, tower_units, dropout=dropout, experts=experts, balance=balance),
        ),
        name="ple",
    )
