"""The Transformer's feed-forward network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive
from recsys_attn.constant_factors import held
from recsys_attn.initializers import glorot
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor

# Gated units, and the activation of their gate. Keras' own "glu" halves the width instead.
GATED: Mapping[str, str] = {
    "glu": "sigmoid",
    "reglu": "relu",
    "geglu": "gelu",
    "swiglu": "silu",
}


@keras.saving.register_keras_serializable(package="recsys_attn")
class FeedForward(Layer):
    """A network with one hidden layer, applied at each position.

    `output = W_2 dropout(activation(W_1 x + b_1)) + b_2`; with a gated unit
    `output = W_2 dropout(activation(W_1 x + b_1) * (V x + c)) + b_2`

    Sources: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762; gated:
    Shazeer, "GLU Variants Improve Transformer", 2020, arXiv 2002.05202, which has no biases;
    chunks: Kitaev et al., "Reformer", ICLR 2020, arXiv 2001.04451.

    Args:
        units: Size of the hidden layer; four times E is usual. A gated unit has three matrices in
            place of two: take two thirds for the same number of weights.
        activation: `"dice"` or any Keras activation; or a gated unit, which is often better for
            the same cost: `"swiglu"` (with SiLU), `"geglu"` (GELU), `"reglu"` (ReLU) or `"glu"`
            (sigmoid).
        dropout: Share of the hidden units dropped in training. Defaults to 0.
        chunks: Number of parts of the positions, computed one after the other, and again for the
            gradient: the hidden layer needs memory for one part, and a step the time of one more
            pass. For very long histories. Defaults to none; not with dropout or Dice, which do
            not compute the same twice.

    Call arguments:
        inputs: (..., E).
        where: Booleans that broadcast to the inputs without their last axis, False for padding,
            which does not enter the statistics of Dice.

    Returns:
        (..., E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import FeedForward
    >>> tuple(FeedForward(32, activation="swiglu")(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    initial_gain = 1.0  # of the weights; set before `build` by a block with such a residual

    def __init__(
        self,
        units: int,
        activation: Any = "relu",
        dropout: float = 0.0,
        chunks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("units", units)
        self.units = units
        self.activation = serialize_activation(activation)
        self.gated = isinstance(self.activation, str) and self.activation in GATED
        of_hidden = GATED[self.activation] if self.gated else self.activation
        require_chunks("chunks", chunks, self.activation, dropout)
        self.chunks = chunks
        self.hidden = Mlp((units,), of_hidden, dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        for dense in self.hidden.dense:
            dense.kernel_initializer = glorot(self.initial_gain)
        self.hidden.build(input_shape)
        if self.gated:
            self.gate = keras.layers.Dense(
                self.units, kernel_initializer=glorot(self.initial_gain), dtype=self.dtype_policy
            )
            self.gate.build(input_shape)
        self.output_layer = keras.layers.Dense(
            input_shape[-1], kernel_initializer=glorot(self.initial_gain), dtype=self.dtype_policy
        )
        self.output_layer.build((*input_shape[:-1], self.units))

    def call(self, inputs: Tensor, where: Tensor | None = None) -> Tensor:
        if self.chunks is not None:
            return self._chunked(inputs, self.chunks)
        hidden = self.hidden(inputs, where=where)
        return self.output_layer(hidden * held(self.gate(inputs)) if self.gated else hidden)

    def _chunked(self, inputs: Tensor, chunks: int) -> Tensor:
        # Tensors as arguments: TensorFlow has no gradient of variables in a recomputed loop.
        layers = [*self.hidden.dense, self.output_layer, *([self.gate] if self.gated else [])]
        weights = [
            ops.cast(w, inputs.dtype) for layer in layers for w in (layer.kernel, layer.bias)
        ]
        activation = self.hidden.activations[0]

        def network(x: Tensor, *weights: Tensor) -> Tensor:
            hidden = activation(ops.matmul(x, weights[0]) + weights[1])
            if self.gated:
                hidden = hidden * (ops.matmul(x, weights[4]) + weights[5])
            return ops.matmul(hidden, weights[2]) + weights[3]

        again = keras.remat(network)
        width = inputs.shape[-1]
        rows = ops.reshape(inputs, (-1, width))
        count = ops.shape(rows)[0]
        rows = ops.pad(rows, ((0, (-count) % chunks), (0, 0)))
        parts = ops.map(lambda x: again(x, *weights), ops.reshape(rows, (chunks, -1, width)))
        return ops.reshape(ops.reshape(parts, (-1, width))[:count], ops.shape(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "dropout": self.hidden.dropout.rate}


def require_chunks(name: str, chunks: int | None, activation: Any, dropout: float) -> None:
    """Raises unless a network can be computed in so many chunks, and again for the gradient."""
    if chunks is None:
        return
    require_positive(name, chunks)
    if dropout or activation == "dice":
        raise ValueError(
            f"`{name}` computes the network twice, and dropout and 'dice' differ between the two; "
            f"leave one out. Received: {name}={chunks}, activation={activation!r}, "
            f"dropout={dropout}"
        )


def serialize_activation(activation: Any) -> Any:
    """Returns the config of an activation of `FeedForward`.

    Raises:
        ValueError: The name is unknown.
    """
    return activations.serialize(activation, *GATED)
