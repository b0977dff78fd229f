"""A model with target attention, field interaction and attention gates."""

from __future__ import annotations

import keras

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embedding_tables import require_one_width
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import encoded_histories
from recsys_attn.models.encoder_context import context_features
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import attended
from recsys_attn.models.option_tables import (
    EncoderTable,
    ExpertTable,
    InteractionOptions,
    InteractionTable,
    TargetAttentionOptions,
    TargetAttentionTable,
)
from recsys_attn.models.option_types import Count, Gates, Penalties, Share, Sizes
from recsys_attn.models.placements import placed, places_of_history
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.experts import Experts
from recsys_attn.multitask.mmoe import MMoE
from recsys_attn.schema import Schema


@MODELS.register("attention_ranker")
def attention_ranker(
    schema: Schema,
    *,
    width: Count = 16,
    target_attention: TargetAttentionTable = TargetAttentionOptions(name="interest"),
    encoder: EncoderTable | None = None,
    interaction: InteractionTable = InteractionOptions(head_dim=8),
    mlp_units: Sizes = (256, 128, 64),
    experts: ExpertTable | None = None,
    tower_units: Sizes = (),
    dropout: Share = 0.1,
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
) -> RankingModel:
    """Target attention over histories, interaction of fields, and experts shared by tasks.

    Each history is weighted for each candidate as in DIN. The interests and their strength are
    fields beside the others. An MLP reads the fields and what AutoInt's interacting layers make of
    them, times a learned share that starts at 0; the fields themselves pass by it, as a linear
    part. So the model starts as `mlp`, and attention adds to it. With `experts`, those over all of
    this are shared by the tasks, and the gate of a task is the attention of a learned query to
    their outputs.

    Args:
        schema: A fitted schema.
        width: Embedding width of every field.
        target_attention: Attention of a candidate to a history, of `TargetAttentionOptions`:
            `name`, `num_heads`, `head_dim`. If the mechanism has weights and there are no heads,
            the strength of the interest is a field too.
        encoder: Attention of events to each other before it, of `EncoderOptions`: `name`,
            `num_layers`, `num_heads`, `head_dim`, `positions`, `context`. Defaults to no encoder.
        interaction: Attention of fields to each other, of `InteractionOptions`: `name`,
            `num_layers`, `num_heads`, `head_dim`, `update`.
        mlp_units: Hidden units of the MLP. Set `()` to leave it out, and the linear part with it:
            AutoInt's interacting layers alone.
        experts: Experts shared by the tasks, of `ExpertOptions`: `number`, `units`,
            `gate_attention`, `balance`. Set `{"number": 4}` where tasks want different things of
            the same features. Defaults to none: the tasks share all but their last layer.
        tower_units: Hidden units of each task's tower. Defaults to none.
        dropout: Dropout of MLP, experts and towers, and of the weights of the fields' attention
            without a name in `interaction`, in which it is an argument of the mechanism.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, `experts`, or the heads
            of `encoder`, `target_attention` or `interaction`). Raise `penalty` to close more.
            Defaults to none.
        disagreement: Penalty on similar heads and experts, by the factors of `Disagreement`: for
            all places, such as `{"outputs": 0.1}`, or by place (`encoder`, `target_attention`,
            `interaction`, `experts`). Defaults to none.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    require_one_width(schema, width)
    target = target_attention
    places = places_of_history(schema, encoder, target.num_heads)
    places["experts"] = "experts" if experts is None else ""
    by_place = placed(gates, disagreement, fields="", interaction="", **places)
    tasks = [task.name for task in schema.tasks]
    sizes = interaction.num_heads, interaction.head_dim
    mechanism = interaction.name or Dense("dot", dropout=dropout)
    layers = interaction.num_layers
    autoint = AutoInt(layers, *sizes, mechanism, interaction.update, **by_place["interaction"])
    mixture, balance = None, 0.0
    if experts is not None:
        shared = Experts(experts.number, experts.units, dropout=dropout, **by_place["experts"])
        gate = {"gate": "attention", "mechanism": experts.gate_attention}
        mixture, balance = MMoE(len(tasks), **gate, experts=shared), experts.balance
    mlp = Mlp(mlp_units, dropout=dropout) if mlp_units else None

    def history() -> keras.layers.Layer:
        heads = target.heads(interaction.head_dim)
        return attended(target.name, width, **heads, **by_place["target_attention"])

    histories = encoded_histories(schema, history, encoder, width, sizes, **by_place["encoder"])
    return RankingModel(
        FeatureEmbedding(schema, width, named=context_features(encoder)),
        Tower(
            histories,
            FieldInteraction(autoint, mlp, stacked=mlp is not None),
            TaskHeads(tasks, tower_units, dropout=dropout, experts=mixture, balance=balance),
            field_gate(schema, width, by_place["fields"]["gate"]),
        ),
        name="attention_ranker",
    )
