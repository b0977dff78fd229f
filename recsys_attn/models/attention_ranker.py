"""A model with target attention, field interaction and attention gates."""

from __future__ import annotations

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive, require_sizes
from recsys_attn.embedding_tables import require_one_width
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import encoded_histories
from recsys_attn.models.encoder_context import context_of, named_by
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import attended
from recsys_attn.models.option_types import (
    Count,
    Encoder,
    EncoderContext,
    EncoderPositions,
    Factor,
    Gates,
    HeadSize,
    Mechanism,
    Penalties,
    Share,
    Sizes,
    require_with,
)
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
    target_attention: Mechanism = "interest",
    target_heads: Count | None = None,
    encoder: Encoder | None = None,
    encoder_layers: Count | None = None,
    encoder_positions: EncoderPositions | None = None,
    encoder_context: EncoderContext | None = None,
    interaction: Mechanism | None = None,
    num_layers: Count = 2,
    num_heads: Count = 2,
    head_dim: HeadSize = 32,
    mlp_units: Sizes = (128, 64),
    num_experts: Count = 4,
    expert_units: Sizes = (128, 64),
    gate_attention: Mechanism = "transformer",
    tower_units: Sizes = (32,),
    dropout: Share = 0.0,
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
    balance: Factor = 0.0,
) -> RankingModel:
    """Target attention over histories, interaction of fields, and experts shared by tasks.

    Each history is weighted for each candidate as in DIN. The interests and their strength are
    fields beside the others in AutoInt's interacting layers, with an MLP beside them. Experts over
    both are shared by the tasks; the gate of a task is the attention of a learned query to the
    experts' outputs.

    Args:
        schema: A fitted schema.
        width: Embedding width of every field.
        target_attention: Attention of a candidate to a history, of `recsys_attn.attention.presets`.
            If the mechanism has weights, the strength of the interest is a field too.
        target_heads: Number of heads of target attention, with projections and of the size
            `head_dim`. Defaults to none: no projections, as in DIN. With heads the strength of the
            interest is no field.
        encoder: Attention of events to each other before it, in Transformer blocks with the heads
            of the interacting layers; or another encoder, such as `"gru"`, or a block with its
            options (`recsys_attn.models.encoders`). Defaults to no encoder.
        encoder_layers: Number of blocks of the encoder. Defaults to one.
        encoder_positions: How the encoder knows the order of the events: a name or a config of
            `recsys_attn.attention.positions`, such as `"learned"` or `"rotary"`; `"none"` for an
            encoder that is blind to it. Defaults to the positions of the encoder's score where it
            has some, as in `"alibi"`, and else to `"learned"`, counted from the latest event.
        encoder_context: Features of the request, such as the scenario, for the encoder: `features`,
            names with `side="context"`, and `how`: `"norm"`, a conditional norm in each block;
            `"film"`, a scale and a shift of the events; `"tokens"`, events in front of the others;
            `"keys"`, keys and values of their own in each attention. `"norm"` and `"film"` start
            as no context and fit every encoder, the others those with attention. Defaults to none.
        interaction: Attention of fields to each other. Defaults to AutoInt's, with `dropout`.
        num_layers: Number of interacting layers.
        num_heads: Number of heads of each.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
        mlp_units: Hidden units of the MLP over all fields, beside the interacting layers; it learns
            faster than they do. Set `()` to leave it out.
        num_experts: Number of experts shared by the tasks.
        expert_units: Hidden units of an expert.
        gate_attention: Mechanism of the gate.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of MLP, experts and towers, and of the weights of the fields' attention
            without `interaction`, in which it is an argument of the mechanism.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, `experts`, or the heads
            of `encoder`, `target_attention` or `interaction`). Raise `penalty` to close more.
            Defaults to none.
        disagreement: Penalty on similar heads and experts, by the factors of `Disagreement`: for
            all places, such as `{"outputs": 0.1}`, or by place (`encoder`, `target_attention`,
            `interaction`, `experts`). Defaults to none.
        balance: Factor of the penalty on experts that are used unequally. Raise it to 0.01 or 0.1
            where an expert has died. Defaults to 0: none.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model or no `size` yet, or an argument
            is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import attention_ranker
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = attention_ranker(schema, width=4, expert_units=(8,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_one_width(schema, width)
    require_positive("encoder_layers", 1 if encoder_layers is None else encoder_layers)
    given = {"encoder_layers": encoder_layers, "encoder_positions": encoder_positions}
    require_with("`encoder`", encoder is not None, **given)
    context = context_of(schema, width, encoder, encoder_context)
    require_sizes("mlp_units", mlp_units)
    require_sizes("expert_units", expert_units)
    require_sizes("tower_units", tower_units)
    of_history = places_of_history(schema, encoder, target_heads)
    own = placed(gates, disagreement, fields="", interaction="", experts="", **of_history)
    tasks = [task.name for task in schema.tasks]
    attention = Dense("dot", dropout=dropout) if interaction is None else interaction
    autoint = AutoInt(num_layers, num_heads, head_dim, attention, **own["interaction"])
    experts = Experts(num_experts, expert_units, dropout=dropout, **own["experts"])
    mixture = MMoE(len(tasks), gate="attention", mechanism=gate_attention, experts=experts)
    target = target_attention, width, target_heads, head_dim
    histories = encoded_histories(
        schema,
        lambda: attended(*target, **own["target_attention"]),
        encoder,
        (1 if encoder_layers is None else encoder_layers, num_heads, head_dim),
        encoder_positions,
        context,
        **own["encoder"],
    )
    return RankingModel(
        FeatureEmbedding(schema, width, named=named_by(context)),
        Tower(
            histories,
            FieldInteraction(autoint, Mlp(mlp_units, dropout=dropout) if mlp_units else None),
            TaskHeads(tasks, tower_units, dropout=dropout, experts=mixture, balance=balance),
            field_gate(schema, width, own["fields"]["gate"]),
        ),
        name="attention_ranker",
    )
