"""Experts: networks shared by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.checks import require_positive, require_share, require_sizes
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Experts(Layer):
    """E networks of equal shape over the same rows, with one product per layer.

    `x_e = dropout(activation(W_e x_e + b_e))`, layer after layer.

    Args:
        num_experts: Number of experts E.
        units: Sizes of each expert's layers.
        activation: Any Keras activation, after every layer.
        dropout: Share of the activations dropped in training. Defaults to 0.

    Call arguments:
        inputs: (M, D).

    Returns:
        (E, M, U), experts first.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import Experts
    >>> tuple(Experts(4, units=(16, 8))(keras.random.normal((3, 5))).shape)
    (4, 3, 8)
    """

    def __init__(
        self,
        num_experts: int,
        units: Sequence[int],
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_experts", num_experts)
        self.num_experts = num_experts
        self.units = require_sizes("units", units)
        require_share("dropout", dropout)
        if not self.units:
            raise ValueError("`units` must name at least one layer of an expert. Received: ()")
        self.activation = activations.function("activation", activation)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        self.kernels, self.biases = [], []
        for index, (size, units) in enumerate(
            zip((input_shape[-1], *self.units), self.units, strict=False)
        ):
            self.kernels.append(
                self.add_weight(
                    shape=(self.num_experts, size, units),
                    initializer=blockwise(self.num_experts, axis=0),
                    name=f"kernel_{index}",
                )
            )
            self.biases.append(
                self.add_weight(
                    shape=(self.num_experts, 1, units), initializer="zeros", name=f"bias_{index}"
                )
            )

    def call(self, inputs: Tensor) -> Tensor:
        x = ops.expand_dims(inputs, 0)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            x = self.dropout(self.activation(ops.matmul(x, kernel) + bias))
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (self.num_experts, input_shape[0], self.units[-1])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_experts": self.num_experts,
            "units": list(self.units),
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout.rate,
        }
