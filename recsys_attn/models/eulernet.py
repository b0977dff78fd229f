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
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        orders: Number of learned products, layer by layer. As many as there are fields, to five
            times as many, in one or two layers.
        norm: Normalisation after each layer.
        dropout: Dropout of the inputs of each layer.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model or no `size` yet, or an argument
            is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import eulernet
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = eulernet(schema, width=4, orders=(3,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    products = Stream(EulerInteraction(orders, norm, dropout))
    return ranker(
        "eulernet",
        schema,
        width,
        [products],
        history_pooling=history_pooling,
    )
