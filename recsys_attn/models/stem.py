"""STEM: embeddings of each task beside shared ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_tables import EmbeddingExpertOptions, EmbeddingExpertTable
from recsys_attn.models.option_types import Count, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.task_embeddings import TaskEmbeddingExperts
from recsys_attn.schema import Feature, Schema


@MODELS.register("stem")
def stem(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    experts: EmbeddingExpertTable = EmbeddingExpertOptions(task=1, shared=8, units=(512, 512, 512)),
    tower_units: Sizes = (128, 64),
    dropout: Share = 0.0,
) -> RankingModel:
    """Shared and Task-specific Embeddings (STEM-Net): each task has its vectors of all features.

    A value has one row with the shared vector and that of each task, so the tables are `1 + tasks`
    times as large and a value is still looked up once. Gates mix the experts of all tasks, but a
    task's loss reaches its own and the shared ones only (`TaskEmbeddingExperts`): for tasks that
    disagree about the same items. The model's schema has the widths of the whole rows.

    Source: Su et al., "STEM: Unleashing the Power of Embeddings for Multi-task Recommendation",
    AAAI 2024, arXiv 2308.13537.

    Args:
        schema: A fitted schema.
        width: Embedding width of the shared and of each task's vectors.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        experts: Experts of each task and shared ones, of `EmbeddingExpertOptions`: `task`,
            `shared`, `units`, `gate_units`, `balance`.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of experts, gates and towers.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has a `table_width`, whose rows all tasks would share.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import stem
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"), Task("buy")))
    >>> model = stem(schema, width=4, experts={"units": (8,)})
    >>> [tuple(table.shape) for table in model.embedding.weights]
    [(7, 12)]
    """
    tasks = [task.name for task in schema.tasks]
    mixture = TaskEmbeddingExperts(
        len(tasks),
        experts.task,
        experts.shared,
        experts.units,
        experts.gate_units,
        dropout=dropout,
    )
    parts = 1 + len(tasks)
    wide = replace(schema, features=tuple(_wider(feature, parts) for feature in schema.features))
    return RankingModel(
        FeatureEmbedding(wide, width * parts),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(
                tasks, tower_units, dropout=dropout, experts=mixture, balance=experts.balance
            ),
        ),
        name="stem",
    )


def _wider(feature: Feature, parts: int) -> Feature:
    """Returns a feature with room for several vectors."""
    if getattr(feature, "table_width", None):
        raise ValueError(
            "stem needs rows that have numbers of each task, and those of a narrow table belong to "
            f"all tasks. Remove the `table_width` of the feature {feature.name!r}"
        )
    return feature if feature.width is None else replace(feature, width=feature.width * parts)
