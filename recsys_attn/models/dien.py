"""DIEN: interests that evolve for each candidate."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import EncodedHistory, require_histories
from recsys_attn.models.interests import InterestEvolution, InterestExtractor
from recsys_attn.models.option_types import Activation, Count, Factor, Mechanism, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("dien")
def dien(
    schema: Schema,
    *,
    width: Count = 16,
    gru: Literal["augru", "agru", "aigru"] = "augru",
    attention: Mechanism | None = None,
    auxiliary_weight: Factor = 1.0,
    mlp_units: Sizes = (200, 80),
    activation: Activation = "dice",
    dropout: Share = 0.0,
) -> RankingModel:
    """Deep Interest Evolution Network: two GRUs over each history, then an MLP with Dice.

    The first GRU runs once for a request, and an auxiliary loss teaches its states to predict the
    next event. The second one runs for each candidate: attention of the candidate to these states
    decides how much each of them changes it. `explain` has this attention.

    Source: Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction",
    AAAI 2019, arXiv 1809.03672.

    Args:
        schema: A fitted schema with at least one `Sequence`.
        width: Embedding width. A state is as wide as an event, with which the loss compares it.
        gru: The second GRU: `"augru"`, whose update gate is scaled by the attention, the best one
            in the paper; `"agru"`, whose update gate is the attention; or `"aigru"`, whose input is
            scaled.
        attention: Attention of a candidate to the states, with weights, of
            `recsys_attn.attention.presets`. Defaults to the paper's softmax of a bilinear form. The
            authors' code has `{"class_name": "din", "config": {"weighting": "softmax"}}`.
        auxiliary_weight: Factor of the auxiliary loss; 0 for none. Its negatives are events of
            other requests of the batch. `penalty_warmup` of the training scales it too.
        mlp_units: Hidden units of the network over all fields.
        activation: Activation of that network.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: The schema has no history.
    """
    require_histories(schema, "dien")
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            {
                name: EncodedHistory(
                    InterestExtractor(auxiliary_weight), InterestEvolution(gru, attention)
                )
                for name in schema.histories
            },
            FieldInteraction(mlp=Mlp(mlp_units, activation=activation, dropout=dropout)),
            TaskHeads([task.name for task in schema.tasks]),
        ),
        name="dien",
    )
