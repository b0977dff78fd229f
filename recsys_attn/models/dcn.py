"""DCN, DCN-V2 and GDCN: a cross network with an MLP."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.interactions.cross_network import CrossNetwork
from recsys_attn.models.option_tables import CrossOptions, CrossTable
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("dcn")
def dcn(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    cross: CrossTable = CrossOptions(),
    structure: Literal["parallel", "stacked"] = "stacked",
    mlp_units: Sizes = (512, 256),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.0,
) -> RankingModel:
    """Deep & Cross Network: DCN-V2; DCN with `cross="vector"`, GDCN with `cross={"gated": True}`.

    Stacked: `logit = w . mlp(cross(x)) + b`; in parallel `logit = w . [cross(x), mlp(x)] + b`, with
    x the embeddings side by side and the equations of `CrossNetwork`. Without `mlp_units` the cross
    network alone.

    Sources: Wang et al., "Deep & Cross Network for Ad Click Predictions", ADKDD 2017, arXiv
    1708.05123 (in parallel); Wang et al., "DCN V2", WWW 2021, arXiv 2008.13535; Wang et al.,
    "Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction", CIKM 2023, arXiv
    2311.04635.

    Args:
        schema, width, history_pooling: As in `mlp`; features may have widths of their own.
        cross: The cross network, of `CrossOptions`: `name` (`"matrix"` or `"vector"`),
            `num_layers`, `rank`, `num_experts`, `gated`.
        structure: The MLP over the cross network, `"stacked"`, or beside it, `"parallel"`.
        mlp_units: Hidden units of the network.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.
    """
    products = CrossNetwork(
        cross.num_layers, cross.name, cross.rank, cross.num_experts, cross.gated
    )
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
