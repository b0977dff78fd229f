"""PLE and CGC: experts of each task beside shared ones."""

from __future__ import annotations

from typing import Literal

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_tables import ProgressiveExpertOptions, ProgressiveExpertTable
from recsys_attn.models.option_types import Count, Share, Sizes
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
    experts: ProgressiveExpertTable = ProgressiveExpertOptions(),
    tower_units: Sizes = (32,),
    dropout: Share = 0.0,
) -> RankingModel:
    """Progressive Layered Extraction over the concatenated embeddings; CGC with one layer.

    Source: Tang et al., "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model
    for Personalized Recommendations", RecSys 2020.

    Args:
        schema, width, history_pooling: As in `mlp`.
        experts: Experts of each task and shared ones, of `ProgressiveExpertOptions`: `num_layers`
            (1 is CGC), `task`, `shared`, `units`, `balance`.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of experts and towers.

    Returns:
        A `RankingModel`.
    """
    tasks = [task.name for task in schema.tasks]
    layers = ProgressiveExperts(
        len(tasks),
        experts.num_layers,
        experts.task,
        experts.shared,
        experts.units,
        dropout=dropout,
    )
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(
                tasks, tower_units, dropout=dropout, experts=layers, balance=experts.balance
            ),
        ),
        name="ple",
    )
