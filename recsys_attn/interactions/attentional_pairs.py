"""The attention over pairs of fields of AFM."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.layers.pooling import AttentionPooling
from recsys_attn.interactions.factorization_machine import PairProducts, pair_places
from recsys_attn.layer import Layer
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class AttentionalPairs(Layer):
    """The products of all pairs of fields, weighted by attention.

    `y = sum_{i<j} a_ij v_i * v_j`, `a = softmax_ij(h . relu(W (v_i * v_j) + b))`.

    Source: Xiao et al., "Attentional Factorization Machines", IJCAI 2017, arXiv 1708.04617.

    Args:
        mechanism: Of the weights, of `recsys_attn.attention.presets`. Defaults to `"afm"`.

    Call arguments:
        inputs: Fields (..., F, E), at least two.
        present: (..., F), False for missing fields, whose pairs get no weight; zeros if there is
            no pair.

    Returns:
        (..., E).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import AttentionalPairs
    >>> tuple(AttentionalPairs()(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 4)
    """

    def __init__(self, mechanism: Any = "afm", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.products = PairProducts(by_channel=True, dtype=self.dtype_policy)
        self.products.built = True  # it has no weights
        self.pooling = AttentionPooling(presets.get(mechanism), dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        self.pooling.build(self.products.compute_output_shape(input_shape))

    def call(self, inputs: Tensor, present: Tensor | None = None) -> Tensor:
        if present is not None:
            first, second = pair_places(inputs.shape)
            present = ops.cast(present, "bool")
            present = ops.logical_and(
                ops.take(present, first, axis=-1), ops.take(present, second, axis=-1)
            )
        return self.pooling(self.products(inputs), present=present)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], input_shape[-1])

    def get_config(self) -> Config:
        return {**super().get_config(), "mechanism": serialize(self.pooling.attention.mechanism)}
