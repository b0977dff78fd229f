"""MaskNet: networks whose layers are masked by the embeddings of the instance."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.interactions.mask_network import MaskNetwork
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("masknet")
def masknet(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    structure: Literal["parallel", "serial"] = "parallel",
    block_units: Sizes = (400, 400, 400),
    reduction: Count = 2,
    embedding_norm: bool = True,
    norm: Norm = "layer",
    mlp_units: Sizes | None = None,
    activation: Activation = "relu",
    dropout: Share = 0.0,
) -> RankingModel:
    """MaskNet: mask blocks over the embeddings, in parallel under an MLP or in series.

    In parallel `logit = w . mlp([block_1(v), block_2(v), ...]) + b`; in series
    `logit = w . block_n(... block_1(v)) + b`, with the equations of `MaskNetwork`.

    Source: Wang et al., "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
    Instance-Guided Mask", DLP-KDD 2021, arXiv 2102.07619.

    Args:
        schema, width, history_pooling: As in `mlp`.
        structure: Blocks side by side, `"parallel"`, or one over the other, `"serial"`.
        block_units: Size of the output of each block.
        reduction: The hidden layer of a mask has the size of the mask times it; 1 to 3 are usual.
        embedding_norm: Whether the embedding of each field is normalised before it is masked.
        norm: Normalisation before each activation of the blocks.
        mlp_units: Hidden units of the network over the blocks. Defaults to 400, 400, 400 in
            parallel, and to none in series.
        activation: Activation of the blocks and the network.
        dropout: Dropout of the blocks and the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    if mlp_units is None:
        mlp_units = (400, 400, 400) if structure == "parallel" else ()
    blocks = MaskNetwork(
        block_units, structure, embedding_norm, reduction, activation, dropout, norm
    )
    stream = Stream(blocks, [Mlp(mlp_units, activation, dropout)])
    return ranker(
        "masknet",
        schema,
        width,
        [stream],
        history_pooling=history_pooling,
    )
