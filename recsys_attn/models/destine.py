"""DESTINE: disentangled self-attention over the feature fields."""

from __future__ import annotations

from typing import Literal

from recsys_attn.attention.mechanisms.disentangled import Disentangled
from recsys_attn.checks import require_share
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.models.autoint import interacting_ranker
from recsys_attn.models.option_types import (
    Count,
    Gates,
    HeadSize,
    Norm,
    Penalties,
    Share,
    Sizes,
)
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
    num_layers: Count = 3,
    num_heads: Count = 2,
    head_dim: HeadSize = 32,
    scale: bool = False,
    attention_dropout: Share = 0.0,
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
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel, for which
            one striking event is enough.
        num_layers: Number of layers of attention.
        num_heads: Number of heads of each.
        head_dim: Size of a head; or a pair, the size of queries and keys and that of values.
        scale: Whether to divide the pairwise logits by the square root of the head size; for large
            heads.
        attention_dropout: Dropout of the attention weights.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, or the heads of the
            `interaction`). Raise `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar heads, by the factors of `Disagreement`: for all places,
            such as `{"outputs": 0.1}`, or by place (`interaction`). Defaults to none.
        dropout: Dropout of the MLP.
        mlp_units: Hidden units of the MLP beside the attention. Defaults to none.
        norm: Normalisation before each activation of the MLP, such as `"batch"`.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model or no `size` yet, or an argument
            is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import destine
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = destine(schema, width=4, num_layers=1, head_dim=4)
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_share("attention_dropout", attention_dropout)
    own = placed(gates, disagreement, fields="", interaction="")
    attention = AutoInt(
        num_layers=num_layers,
        num_heads=num_heads,
        head_dim=head_dim,
        mechanism=Disentangled(scale, attention_dropout),
        update=FieldUpdate(relu="none"),
        **own["interaction"],
    )
    network = mlp_units, dropout, norm
    gate = own["fields"]["gate"]
    return interacting_ranker("destine", schema, width, attention, network, history_pooling, gate)
