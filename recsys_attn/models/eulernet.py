"""EulerNet: products of fields with learned orders, by Euler's formula."""

from __future__ import annotations

from typing import Literal

from recsys_attn.interactions.euler import EulerInteraction
from recsys_attn.models.option_types import Count, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("eulernet")
def eulernet(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    orders: Sizes = (52,),
    norm: Literal["layer", "none", "rms"] = "layer",
    dropout: Share = 0.0,
) -> RankingModel:
    """EulerNet: explicit products of any order and an implicit part, in one complex space.

    `logit = w . r + w . p + b`, for the real and imaginary parts r and p of `EulerInteraction`.

    Source: Tian et al., "EulerNet: Adaptive Feature Interaction Learning via Euler's Formula for
    CTR Prediction", SIGIR 2023, arXiv 2304.10711.

    Args:
        schema, width, history_pooling: As in `mlp`.
        orders: Number of learned products, layer by layer. As many as there are fields, to five
            times as many, in one or two layers.
        norm: Normalisation after each layer.
        dropout: Dropout of the inputs of each layer.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    products = Stream(EulerInteraction(orders, norm, dropout))
    return ranker(
        "eulernet",
        schema,
        width,
        [products],
        history_pooling=history_pooling,
    )
