"""Baselines without attention."""

from __future__ import annotations

from typing import Any, Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Activation, Count, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("logistic_regression")
def logistic_regression(schema: Schema, *, embeddings_regularizer: Any = None) -> RankingModel:
    """Logistic regression: one weight per id and per number, no interaction.

    Embeddings of width one and a linear layer over the fields.

    Args:
        schema: A fitted schema.
        embeddings_regularizer: Regularizer of the embedding tables.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has no `size` yet.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import logistic_regression
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = logistic_regression(schema)
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    embedding = FeatureEmbedding(
        schema, 1, embeddings_initializer="zeros", embeddings_regularizer=embeddings_regularizer
    )
    return _baseline("logistic_regression", embedding, FieldInteraction())


@MODELS.register("mlp")
def mlp(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    field_pooling: Literal["concatenate", "max", "mean"] = "concatenate",
    units: Sizes = (256, 128, 64),
    activation: Activation = "relu",
    dropout: Share = 0.0,
    embeddings_regularizer: Any = None,
) -> RankingModel:
    """A network over the concatenated or pooled embeddings, shared by all tasks.

    Args:
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel, for which
            one striking event is enough.
        field_pooling: `"concatenate"` the embeddings; or the `"mean"`, or the `"max"` of each
            channel, of those that are not missing: a control, which loses the field of a vector.
        units: Hidden units of the network.
        activation: Activation of the network.
        dropout: Dropout of the network.
        embeddings_regularizer: Regularizer of the embedding tables.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has no `size` yet, or an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import mlp
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = mlp(schema, width=4, units=(8,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    network = Mlp(units, activation=activation, dropout=dropout)
    interaction = FieldInteraction(mlp=network, field_pooling=field_pooling)
    embedding = FeatureEmbedding(schema, width, embeddings_regularizer=embeddings_regularizer)
    return _baseline("mlp", embedding, interaction, history_pooling)


def _baseline(
    name: str, embedding: FeatureEmbedding, interaction: FieldInteraction, pooling: str = "mean"
) -> RankingModel:
    schema = embedding.schema
    return RankingModel(
        embedding,
        Tower(
            histories=pooled(pooling, schema.histories),
            interaction=interaction,
            head=TaskHeads([task.name for task in schema.tasks]),
        ),
        name=name,
    )
