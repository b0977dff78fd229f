"""FiBiNET: weights of fields, and bilinear products of their pairs."""

from __future__ import annotations

from typing import Any, Literal

import keras
from keras import ops

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.squeeze_excitation import SqueezeExcitation
from recsys_attn.interactions.bilinear import BilinearInteraction
from recsys_attn.layer import Layer, build_part
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@MODELS.register("fibinet")
def fibinet(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    kind: Literal["all", "each", "interaction"] = "interaction",
    shared_matrices: bool = False,
    reduction: Count = 3,
    mlp_units: Sizes = (400, 400, 400),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.5,
) -> RankingModel:
    """FiBiNET: an MLP over bilinear products of the fields, as they are and weighted by SENET.

    `logit = w_0 + sum_i w_i + w . mlp([bilinear(v), bilinear(senet(v))])`, with the equations of
    `BilinearInteraction` and `SqueezeExcitation`. A missing field has no product.

    Source: Huang et al., "FiBiNET: Combining Feature Importance and Bilinear Feature Interaction
    for Click-Through Rate Prediction", RecSys 2019, arXiv 1905.09433.

    Args:
        schema: A fitted schema.
        width: Size of the vectors v.
        history_pooling: As in `mlp`.
        kind: The matrices of the products: one for `"all"` pairs, one for `"each"` first field, or
            one for each `"interaction"` of two fields; fewer for few rows.
        shared_matrices: Whether both bilinear parts have the same matrices, as in FuxiCTR and BARS:
            half of their weights.
        reduction: SENET's hidden layer has the number of fields divided by it. 1 for fewer than ten
            fields: with one or two hidden units SENET's factors are soon 0 for all fields.
        mlp_units: Hidden units of the network, whose input has F (F - 1) numbers of each channel:
            with very many fields take another model.
        activation: Activation of the network.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model, or there are fewer than two fields.
    """
    weighted = SqueezeExcitation(reduction=reduction)
    if shared_matrices:
        streams = [Stream([Both(weighted), BilinearInteraction(kind)])]
    else:
        streams = [
            Stream(BilinearInteraction(kind)),
            Stream([weighted, BilinearInteraction(kind)]),
        ]
    layers = [Mlp(mlp_units, activation, dropout, norm)]
    return ranker(
        "fibinet",
        schema,
        width,
        streams,
        history_pooling=history_pooling,
        linear=True,
        layers=layers,
    )


@keras.saving.register_keras_serializable(package="recsys_attn")
class Both(Layer):
    """The fields as they are, and as a layer makes them: what follows has one set of weights.

    Args:
        layer: A layer that keeps the shape of the fields and takes `present`.

    Call arguments:
        inputs: Fields (B, T, F, E).
        present: (B, T, F), False where a value is missing.

    Returns:
        (B, T, 2, F, E).

    Example:

    >>> import numpy as np
    >>> from recsys_attn.blocks import SqueezeExcitation
    >>> from recsys_attn.models.fibinet import Both
    >>> tuple(Both(SqueezeExcitation())(np.ones((2, 3, 5, 4), "float32")).shape)
    (2, 3, 2, 5, 4)
    """

    def __init__(self, layer: keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer_of("layer", layer, "present", such_as="SqueezeExcitation")

    @property
    def scales_fields(self) -> bool:
        """Whether the layer multiplies the fields by factors."""
        return getattr(self.layer, "scales_fields", False)

    def build(self, input_shape: Shape) -> None:
        build_part(self, "layer", self.layer, input_shape)

    def call(self, inputs: Tensor, present: Tensor | None = None) -> Tensor:
        return ops.stack([inputs, self.layer(inputs, present=present)], axis=-3)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], 2, *input_shape[-2:])
