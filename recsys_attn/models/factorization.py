"""Factorization machines and networks beside them: FM, FwFM, AFM, Wide & Deep, DeepFM, xDeepFM."""

from __future__ import annotations

from typing import Literal

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.interactions.attentional_pairs import AttentionalPairs
from recsys_attn.interactions.compressed_interaction import CompressedInteraction
from recsys_attn.interactions.factorization_machine import FactorizationMachine, PairProducts
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("fm")
def fm(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    pair_weights: bool = False,
) -> RankingModel:
    """Factorization machine; with `pair_weights` the field-weighted one, FwFM.

    `logit = w_0 + sum_i w_i + sum_{i<j} r_ij <v_i, v_j>` over the fields, with `r_ij = 1` in FM. Of
    several tasks, each has its own w and, for FM, one weight of the sum of the pairs; for FwFM all
    of its own r.

    Sources: Rendle, "Factorization Machines", ICDM 2010; Pan et al., "Field-weighted Factorization
    Machines for Click-Through Rate Prediction in Display Advertising", WWW 2018, arXiv 1806.03514.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        pair_weights: Whether each pair of fields has a weight r: worth it with many fields of
            unequal importance.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    pairs = [Stream(PairProducts())] if pair_weights else []
    terms = [] if pair_weights else [Stream(FactorizationMachine())]
    return ranker(
        "fm",
        schema,
        width,
        pairs,
        history_pooling=history_pooling,
        terms=terms,
        linear=True,
    )


@MODELS.register("afm")
def afm(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    units: Count = 16,
    attention_dropout: Share = 0.0,
    dropout: Share = 0.0,
) -> RankingModel:
    """Attentional factorization machine: the pairs of FM, weighted by attention.

    `logit = w_0 + sum_i w_i + p . sum_{i<j} a_ij (v_i * v_j)`, with a of `AttentionalPairs`. All
    tasks share the weights a, and each has its own p and w.

    Source: Xiao et al., "Attentional Factorization Machines", IJCAI 2017, arXiv 1708.04617.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        units: Hidden units of the attention.
        attention_dropout: Dropout of its weights.
        dropout: Dropout of the weighted sum.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model, or there are fewer than two fields.
    """
    config = {"units": units, "dropout": attention_dropout}
    attention = {"class_name": "afm", "config": config}
    pooled = Stream(AttentionalPairs(attention), [Dropout(dropout)])
    return ranker(
        "afm",
        schema,
        width,
        [pooled],
        history_pooling=history_pooling,
        linear=True,
    )


@MODELS.register("wide_and_deep")
def wide_and_deep(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    mlp_units: Sizes = (1024, 512, 256),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.0,
) -> RankingModel:
    """Wide & Deep: linear terms and an MLP, trained together.

    `logit = w_0 + sum_i w_i + w . mlp([v_1, v_2, ...])`. Products of columns, the paper's wide
    features, are features of the data here.

    Source: Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016, arXiv
    1606.07792.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        mlp_units: Hidden units of the network.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.
    """
    deep = Stream(layers=[Mlp(mlp_units, activation, dropout, norm)])
    return ranker(
        "wide_and_deep",
        schema,
        width,
        [deep],
        history_pooling=history_pooling,
        linear=True,
    )


@MODELS.register("deepfm")
def deepfm(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    mlp_units: Sizes = (400, 400, 400),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.5,
) -> RankingModel:
    """DeepFM: a factorization machine and an MLP over the same vectors.

    `logit = w_0 + sum_i w_i + sum_{i<j} <v_i, v_j> + w . mlp([v_1, v_2, ...])`.

    Source: Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction",
    IJCAI 2017, arXiv 1703.04247.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        mlp_units: Hidden units of the network.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    deep = Stream(layers=[Mlp(mlp_units, activation, dropout, norm)])
    terms = [Stream(FactorizationMachine())]
    return ranker(
        "deepfm",
        schema,
        width,
        [deep],
        history_pooling=history_pooling,
        terms=terms,
        linear=True,
    )


@MODELS.register("xdeepfm")
def xdeepfm(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    cin_units: Sizes = (200, 200, 200),
    mlp_units: Sizes = (400, 400, 400),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.5,
) -> RankingModel:
    """xDeepFM: linear terms, a compressed interaction network and an MLP over the same vectors.

    `logit = w_0 + sum_i w_i + w_c . cin(v) + w_d . mlp([v_1, v_2, ...])`.

    Source: Lian et al., "xDeepFM: Combining Explicit and Implicit Feature Interactions for
    Recommender Systems", KDD 2018, arXiv 1803.05170.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        cin_units: Rows of each layer of the `CompressedInteraction`, the slow part: 64 are often
            as good.
        mlp_units: Hidden units of the network.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model.
    """
    products = Stream(CompressedInteraction(cin_units))
    deep = Stream(layers=[Mlp(mlp_units, activation, dropout, norm)])
    return ranker(
        "xdeepfm",
        schema,
        width,
        [products, deep],
        history_pooling=history_pooling,
        linear=True,
    )
