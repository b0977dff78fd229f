"""The Transformer's feed-forward network."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class FeedForward(Layer):
    """A network with one hidden layer, applied at each position.

    `output = W_2 dropout(activation(W_1 x + b_1)) + b_2`

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Args:
        units: Size of the hidden layer; four times E is usual.
        activation: `"dice"` or any Keras activation.
        dropout: Share of the hidden units dropped in training. Defaults to 0.

    Call arguments:
        inputs: (..., E).
        where: Booleans that broadcast to the inputs without their last axis, False for padding,
            which does not enter the statistics of Dice.

    Returns:
        (..., E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import FeedForward
    >>> tuple(FeedForward(32, activation="gelu")(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self, units: int, activation: Any = "relu", dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive("units", units)
        self.units = units
        self.hidden = Mlp((units,), activation, dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        self.hidden.build(input_shape)
        self.output_layer = keras.layers.Dense(input_shape[-1], dtype=self.dtype_policy)
        self.output_layer.build((*input_shape[:-1], self.units))

    def call(self, inputs: Tensor, where: Tensor | None = None) -> Tensor:
        return self.output_layer(self.hidden(inputs, where=where))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        hidden = self.hidden.get_config()
        return {
            **super().get_config(),
            "units": self.units,
            "activation": hidden["activation"],
            "dropout": hidden["dropout"],
        }
