"""AutoInt: multi-head self-attention over the feature fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embedding_tables import require_one_width
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_tables import InteractionOptions, InteractionTable
from recsys_attn.models.option_types import Count, Gates, Norm, Penalties, Share, Sizes
from recsys_attn.models.placements import placed
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("autoint")
def autoint(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    interaction: InteractionTable = InteractionOptions(num_layers=3),
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
    dropout: Share = 0.0,
    mlp_units: Sizes = (),
    norm: Norm = "none",
    embedding_dropout: Share = 0.0,
) -> RankingModel:
    """AutoInt; with `mlp_units`, AutoInt+. A history is one field for each sequence.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921.

    Args:
        schema, width, history_pooling: As in `mlp`.
        interaction: Attention of fields to each other, of `InteractionOptions`: `name`,
            `num_layers`, `num_heads`, `head_dim`, `update`.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, or the heads of the
            `interaction`). Raise `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar heads, by the factors of `Disagreement`: for all places,
            such as `{"outputs": 0.1}`, or by place (`interaction`). Defaults to none.
        dropout: Dropout of the MLP; that of the attention weights is an argument of the
            mechanism in `interaction`.
        mlp_units: Hidden units of the MLP beside the attention. Defaults to none.
        norm: Normalisation before each activation of the MLP, such as `"batch"`.
        embedding_dropout: Share of the numbers of the embeddings dropped in training. The authors'
            code drops 0.1 on MovieLens-1M.

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
        interaction.name or "autoint",
        interaction.update,
        **by_place["interaction"],
    )
    network = mlp_units, dropout, norm
    gate = by_place["fields"]["gate"]
    return interacting_ranker(
        "autoint", schema, width, attention, network, history_pooling, gate, embedding_dropout
    )


def interacting_ranker(
    name: str,
    schema: Schema,
    width: int,
    attention: AutoInt,
    network: tuple[Sequence[int], float, Any],
    history_pooling: str,
    gate: Any,
    embedding_dropout: float = 0.0,
) -> RankingModel:
    """Returns a model of attention between fields, with or without an MLP beside it.

    Args:
        name: Name of the model.
        schema: A fitted schema.
        width: Embedding width.
        attention: The interacting layers.
        network: Units of the MLP (none without), its dropout and its normalisation.
        history_pooling: `"mean"` or `"max"`.
        gate: The gate of the fields; None for none.
        embedding_dropout: Share of the numbers of the embeddings dropped in training.
    """
    mlp_units, dropout, norm = network
    require_one_width(schema, width)
    if dropout and not mlp_units:
        raise ValueError(
            "`dropout` is that of the MLP, and there is none without `mlp_units`; the weights of "
            "the attention have one in `interaction`. "
            f"Received: dropout={dropout}, mlp_units=()"
        )
    mlp = Mlp(mlp_units, dropout=dropout, norm=norm) if mlp_units else None
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(attention, mlp, embedding_dropout=embedding_dropout),
            head=TaskHeads([task.name for task in schema.tasks]),
            field_gate=field_gate(schema, width, gate),
        ),
        name=name,
    )
