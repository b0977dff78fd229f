"""DESTINE: disentangled self-attention over the feature fields."""

from __future__ import annotations

from typing import Literal

from recsys_attn.attention.mechanisms.disentangled import Disentangled
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.models.autoint import interacting_ranker
from recsys_attn.models.option_tables import DisentangledOptions, DisentangledTable
from recsys_attn.models.option_types import Count, Gates, Norm, Penalties, Share, Sizes
from recsys_attn.models.placements import placed
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.schema import Schema


@MODELS.register("destine")
def destine(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    interaction: DisentangledTable = DisentangledOptions(),
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
    dropout: Share = 0.0,
    mlp_units: Sizes = (),
    norm: Norm = "none",
) -> RankingModel:
    """DESTINE: AutoInt with the mechanism `"disentangled"`, biases, and no ReLU between its layers.

    A field attends others by how well the two fit and by how important each is to all fields. As in
    BARS each layer has a residual; the authors' code has one over all layers, then a ReLU.

    Source: Xu et al., "Disentangled Self-Attentive Neural Networks for Click-Through Rate
    Prediction", CIKM 2021, arXiv 2101.03654.

    Args:
        schema, width, history_pooling: As in `mlp`.
        interaction: Attention of fields to each other, of `DisentangledOptions`: `num_layers`,
            `num_heads`, `head_dim`, `scale`, `dropout`.
        gates, disagreement: As in `autoint`.
        dropout: Dropout of the MLP.
        mlp_units: Hidden units of the MLP beside the attention. Defaults to none.
        norm: Normalisation before each activation of the MLP, such as `"batch"`.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    by_place = placed(gates, disagreement, fields="", interaction="")
    attention = AutoInt(
        interaction.num_layers,
        interaction.num_heads,
        interaction.head_dim,
        Disentangled(interaction.scale, interaction.dropout),
        update=FieldUpdate(relu="none"),
        **by_place["interaction"],
    )
    network = mlp_units, dropout, norm
    gate = by_place["fields"]["gate"]
    return interacting_ranker("destine", schema, width, attention, network, history_pooling, gate)
