"""DCN, DCN-V2 and GDCN: a cross network with an MLP."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.interactions.cross_network import CrossNetwork
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes, require_network
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema

_STRUCTURES = ("parallel", "stacked")


@MODELS.register("dcn")
def dcn(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    cross_layers: Count = 3,
    cross: Literal["matrix", "vector"] = "matrix",
    rank: Count | None = None,
    cross_experts: Count = 1,
    gated: bool = False,
    structure: Literal["parallel", "stacked"] = "stacked",
    mlp_units: Sizes = (512, 256),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.0,
) -> RankingModel:
    """Deep & Cross Network: DCN-V2; DCN with `cross="vector"`, GDCN with `gated`.

    Stacked: `logit = w . mlp(cross(x)) + b`; in parallel `logit = w . [cross(x), mlp(x)] + b`, with
    x the embeddings side by side and the equations of `CrossNetwork`. Without `mlp_units` the cross
    network alone.

    Sources: Wang et al., "Deep & Cross Network for Ad Click Predictions", ADKDD 2017, arXiv
    1708.05123 (in parallel); Wang et al., "DCN V2", WWW 2021, arXiv 2008.13535; Wang et al.,
    "Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction", CIKM 2023, arXiv
    2311.04635.

    Args:
        schema: A fitted schema; features may have widths of their own.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        cross_layers: Layers of the cross network.
        cross: `"matrix"`, DCN-V2; or `"vector"`, DCN, with far fewer weights.
        rank: Rank of the matrices, for many fields: a quarter of their total width is usual.
            Defaults to none: full matrices.
        cross_experts: Number of low-rank parts, mixed for each row; needs `rank`.
        gated: Whether a gate weighs each product: GDCN.
        structure: The MLP over the cross network, `"stacked"`, or beside it, `"parallel"`.
        mlp_units: Hidden units of the network.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has no `size` yet, or an argument is out of range or has no effect
            with the others.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import dcn
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = dcn(schema, width=4, rank=2, mlp_units=(8,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    if structure not in _STRUCTURES:
        raise ValueError(f"`structure` must be a name. {unknown_name(structure, _STRUCTURES)}")
    require_positive("cross_layers", cross_layers)
    require_positive("cross_experts", cross_experts)
    network = {"activation": activation, "norm": norm, "dropout": dropout}
    require_network(dcn, "mlp_units", mlp_units, structure=structure, **network)
    products = CrossNetwork(cross_layers, cross, rank, cross_experts, gated)
    deep = [Mlp(mlp_units, activation, dropout, norm)] if mlp_units else []
    if structure == "stacked":
        streams = [Stream(layers=[products, *deep])]
    else:
        streams = [Stream(layers=[products]), *([Stream(layers=deep)] if deep else [])]
    return ranker(
        "dcn",
        schema,
        width,
        streams,
        history_pooling=history_pooling,
    )
