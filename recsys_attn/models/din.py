"""DIN: target attention of candidates to histories."""

from __future__ import annotations

from recsys_attn.attention import presets
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import encoded_histories, require_histories
from recsys_attn.models.encoder_context import context_features
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.option_tables import (
    EncoderTable,
    TargetAttentionOptions,
    TargetAttentionTable,
)
from recsys_attn.models.option_types import Activation, Count, Gates, Penalties, Share, Sizes
from recsys_attn.models.placements import placed, places_of_history
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("din")
def din(
    schema: Schema,
    *,
    width: Count = 16,
    target_attention: TargetAttentionTable = TargetAttentionOptions(name="din"),
    encoder: EncoderTable | None = None,
    mlp_units: Sizes = (200, 80),
    activation: Activation = "dice",
    dropout: Share = 0.0,
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
) -> RankingModel:
    """Deep Interest Network: target attention over each history, then an MLP with Dice.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978.

    Args:
        schema: A fitted schema with at least one `Sequence`.
        width: Embedding width.
        target_attention: Attention of a candidate to a history, of `TargetAttentionOptions`:
            `name`, `num_heads`, `head_dim`.
        encoder: Attention of events to each other before it, of `EncoderOptions`: `name`,
            `num_layers`, `num_heads`, `head_dim`, `positions`, `context`. Defaults to no encoder.
        mlp_units: Hidden units of the network over all fields.
        activation: Activation of that network.
        dropout: Dropout of the network.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, or the heads of `encoder`
            or `target_attention`). Raise `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar heads, by the factors of `Disagreement`: for all places,
            such as `{"outputs": 0.1}`, or by place (`encoder`, `target_attention`). Defaults to
            none.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: The schema has no sequence to attend to.
    """
    require_histories(schema, "din")
    target = target_attention
    places = places_of_history(schema, encoder, target.num_heads)
    by_place = placed(gates, disagreement, fields="", **places)
    heads = target.heads(16)

    def history() -> TargetAttention:
        return TargetAttention(presets.fresh(target.name), **heads, **by_place["target_attention"])

    histories = encoded_histories(schema, history, encoder, width, (2, 16), **by_place["encoder"])
    return RankingModel(
        FeatureEmbedding(schema, width, named=context_features(encoder)),
        Tower(
            histories,
            FieldInteraction(mlp=Mlp(mlp_units, activation=activation, dropout=dropout)),
            TaskHeads([task.name for task in schema.tasks]),
            field_gate(schema, width, by_place["fields"]["gate"]),
        ),
        name="din",
    )
