"""AutoInt: multi-head self-attention over the feature fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_share, require_sizes
from recsys_attn.embedding_tables import require_one_width
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import (
    Count,
    Gates,
    HeadSize,
    Mechanism,
    Norm,
    Penalties,
    Share,
    Sizes,
    Update,
    require_with,
)
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
    num_layers: Count = 3,
    num_heads: Count = 2,
    head_dim: HeadSize = 32,
    mechanism: Mechanism = "autoint",
    update: Update | None = None,
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
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel, for which
            one striking event is enough.
        num_layers: Number of interacting layers.
        num_heads: Number of heads of each.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
        mechanism: Attention of fields to each other, of `recsys_attn.attention.presets`.
        update: Residual, normalisation and ReLU of the interacting layers, of `FieldUpdate`: the
            authors' code is `{"relu": "projections", "norm": "layer"}` with the mechanism
            `"transformer"`. Try `{"norm": "layer"}` with several layers. Defaults to the paper's.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, or the heads of the
            `interaction`). Raise `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar heads, by the factors of `Disagreement`: for all places,
            such as `{"outputs": 0.1}`, or by place (`interaction`). Defaults to none.
        dropout: Dropout of the MLP; that of the attention weights is an argument of `mechanism`.
        mlp_units: Hidden units of the MLP beside the attention. Defaults to none.
        norm: Normalisation before each activation of the MLP, such as `"batch"`.
        embedding_dropout: Share of the numbers of the embeddings dropped in training. The authors'
            code drops 0.1 on MovieLens-1M.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model or no `size` yet, or an argument
            is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import autoint
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = autoint(schema, width=4, num_layers=1, head_dim=4)
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    own = placed(gates, disagreement, fields="", interaction="")
    attention = AutoInt(
        num_layers=num_layers,
        num_heads=num_heads,
        head_dim=head_dim,
        mechanism=mechanism,
        update=update,
        **own["interaction"],
    )
    network = mlp_units, dropout, norm
    gate = own["fields"]["gate"]
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
    require_share("dropout", dropout)
    require_sizes("mlp_units", mlp_units)
    if dropout and not mlp_units:
        raise ValueError(
            "`dropout` is that of the MLP, and there is none without `mlp_units`; the weights of "
            "the attention have `attention_dropout`, or an argument of `mechanism`. "
            f"Received: dropout={dropout}, mlp_units=()"
        )
    require_with("`mlp_units`", bool(mlp_units), norm=None if norm == "none" else norm)
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
