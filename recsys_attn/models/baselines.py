"""Baselines without attention."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Activation, Count, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import ranker
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("logistic_regression")
def logistic_regression(schema: Schema) -> RankingModel:
    """Logistic regression: a weight of each id and each number for each task, no interaction.

    `logit = w_0 + sum_i w_i`; a history counts with the mean of its events.

    Args:
        schema: A fitted schema; the widths of its features have no meaning here.

    Returns:
        A `RankingModel`.
    """
    return ranker("logistic_regression", schema, None, [], history_pooling="mean", linear=True)


@MODELS.register("mlp")
def mlp(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    field_pooling: Literal["concatenate", "max", "mean"] = "concatenate",
    units: Sizes = (256, 128, 64),
    tower_units: Sizes = (),
    activation: Activation = "relu",
    dropout: Share = 0.0,
) -> RankingModel:
    """A network over the concatenated or pooled embeddings; shared-bottom with `tower_units`.

    Source of the second: Caruana, "Multitask Learning", Machine Learning 1997.

    Args:
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel, for which
            one striking event is enough.
        field_pooling: `"concatenate"` the embeddings; or the `"mean"`, or the `"max"` of each
            channel, of those that are not missing: a control, which loses the field of a vector.
        units: Hidden units of the network.
        tower_units: Hidden units of a network of each task over the shared one (shared-bottom).
            Defaults to none.
        activation: Activation of the networks.
        dropout: Dropout of the networks.

    Returns:
        A `RankingModel`.
    """
    network = Mlp(units, activation=activation, dropout=dropout)
    interaction = FieldInteraction(mlp=network, field_pooling=field_pooling)
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=interaction,
            head=TaskHeads([task.name for task in schema.tasks], tower_units, activation, dropout),
        ),
        name="mlp",
    )
