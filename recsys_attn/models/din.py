"""DIN: target attention of candidates to histories."""

from __future__ import annotations

from recsys_attn.attention import presets
from recsys_attn.attention.layers.head_counts import head_sizes_of, key_head_of_each
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import encoded_histories, require_histories
from recsys_attn.models.encoder_context import context_of, named_by
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.option_types import (
    Activation,
    Count,
    Encoder,
    EncoderContext,
    EncoderPositions,
    Gates,
    Heads,
    HeadSize,
    Mechanism,
    Penalties,
    Share,
    Sizes,
    require_network,
    require_with,
)
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
    target_attention: Mechanism = "din",
    target_heads: Count | None = None,
    target_head_dim: HeadSize | None = None,
    encoder: Encoder | None = None,
    encoder_layers: Count | None = None,
    encoder_heads: Heads | None = None,
    encoder_head_dim: HeadSize | None = None,
    encoder_positions: EncoderPositions | None = None,
    encoder_context: EncoderContext | None = None,
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
        target_attention: Attention of a candidate to a history, of
            `recsys_attn.attention.presets`. The authors' code has a softmax:
            `{"class_name": "din", "config": {"weighting": "softmax"}}`.
        target_heads: Number of heads of target attention, with projections. Defaults to none: no
            projections, as in the paper.
        target_head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
            Defaults to 16 with `target_heads`.
        encoder: Attention of events to each other before it, in Transformer blocks; or another
            encoder, such as `"gru"`, or a block with its options (`recsys_attn.models.encoders`).
            Defaults to no encoder.
        encoder_layers, encoder_heads, encoder_head_dim: Size of the encoder. Default to 1 block
            with 2 heads of 16. A pair of heads is for grouped queries, a pair of sizes for values
            of another size than keys (`MultiHeadAttention`).
        encoder_positions: How the encoder knows the order of the events: a name or a config of
            `recsys_attn.attention.positions`, such as `"learned"` or `"rotary"`; `"none"` for an
            encoder that is blind to it. Defaults to the positions of the encoder's score where it
            has some, as in `"alibi"`, and else to `"learned"`, counted from the latest event.
        encoder_context: Features of the request, such as the scenario, for the encoder: `features`,
            names with `side="context"`, and `how`: `"norm"`, a conditional norm in each block;
            `"film"`, a scale and a shift of the events; `"tokens"`, events in front of the others;
            `"keys"`, keys and values of their own in each attention. `"norm"` and `"film"` start
            as no context and fit every encoder, the others those with attention. Defaults to none.
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
        ValueError: The schema has no sequence to attend to, a feature has no `size` yet, or an
            argument is out of range or has no effect with the others.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import din
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = din(schema, width=4, mlp_units=(8,), encoder="linear_transformer")
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_histories(schema, "din")
    checks = {
        "encoder_layers": (encoder_layers, require_positive),
        "encoder_heads": (encoder_heads, key_head_of_each),
        "encoder_head_dim": (encoder_head_dim, head_sizes_of),
    }
    for name, (size, check) in checks.items():
        if size is not None:
            check(name, size)
    given = {name: size for name, (size, _) in checks.items()}
    require_with("`encoder`", encoder is not None, encoder_positions=encoder_positions, **given)
    context = context_of(schema, width, encoder, encoder_context)
    sizes = (
        1 if encoder_layers is None else encoder_layers,
        2 if encoder_heads is None else encoder_heads,
        16 if encoder_head_dim is None else encoder_head_dim,
    )
    require_network(din, "mlp_units", mlp_units, activation=activation, dropout=dropout)
    own = placed(gates, disagreement, fields="", **places_of_history(schema, encoder, target_heads))
    require_with("`target_heads`", target_heads is not None, target_head_dim=target_head_dim)
    size = 16 if target_head_dim is None else target_head_dim
    heads = {"num_heads": target_heads, "head_dim": None if target_heads is None else size}

    def history() -> TargetAttention:
        mechanism = presets.fresh(target_attention)
        return TargetAttention(mechanism, **heads, **own["target_attention"])

    return RankingModel(
        FeatureEmbedding(schema, width, named=named_by(context)),
        Tower(
            encoded_histories(
                schema, history, encoder, sizes, encoder_positions, context, **own["encoder"]
            ),
            FieldInteraction(mlp=Mlp(mlp_units, activation=activation, dropout=dropout)),
            TaskHeads([task.name for task in schema.tasks]),
            field_gate(schema, width, own["fields"]["gate"]),
        ),
        name="din",
    )
