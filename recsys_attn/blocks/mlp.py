"""The multilayer perceptron."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks import activations
from recsys_attn.blocks.factorized_dense import FactorizedDense
from recsys_attn.blocks.norms import NORMS, build_norm, normalise, reusable
from recsys_attn.checks import require_bool, require_share, require_sizes
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Mlp(Layer):
    """`x = dropout(activation(norm(W x + b)))`, layer after layer, on the last axis.

    With `factorized`, each layer is a `FactorizedDense` in the place of `W x + b`: FINAL.

    Args:
        units: Sizes of the layers; an empty list returns the inputs.
        activation: `"dice"` or any Keras activation, after every layer.
        dropout: Share of the activations dropped in training. Defaults to 0.
        norm: A normalisation of `recsys_attn.blocks.norms` before every activation, such as
            `"batch"`. Defaults to `"none"`.
        factorized: Whether half of the outputs of every linear layer are products: for features
            that interact, where the layers are to be few.

    Call arguments:
        inputs: (..., D).
        where: Booleans that broadcast to the inputs without their last axis, False for padding,
            which does not enter the statistics of Dice and of batches.

    Returns:
        (..., units[-1]).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import Mlp
    >>> tuple(Mlp((16, 4), activation="dice")(keras.random.normal((2, 3, 8))).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        units: Sequence[int],
        activation: Any = "relu",
        dropout: float = 0.0,
        norm: Any = "none",
        factorized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units = require_sizes("units", units)
        require_share("dropout", dropout)
        require_bool("factorized", factorized)
        self.factorized = factorized
        self.activation = activations.serialize(activation)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        linear = FactorizedDense if factorized else keras.layers.Dense
        self.dense = [linear(size, dtype=self.dtype_policy) for size in self.units]
        self.activations = [
            activations.get(self.activation, dtype=self.dtype_policy) for _ in self.units
        ]
        self.norm = reusable(NORMS, norm)
        self.norms = [NORMS.get(self.norm, dtype=self.dtype_policy) for _ in self.units]

    def build(self, input_shape: Shape) -> None:
        shape = tuple(input_shape)
        for dense, norm, activation in self._steps:
            dense.build(shape)
            shape = (*shape[:-1], dense.units)
            build_norm(norm, shape, None)
            activation.build(shape)

    @property
    def _steps(self) -> Iterator[tuple[Any, Any, Any]]:
        return zip(self.dense, self.norms, self.activations, strict=True)

    def call(self, inputs: Tensor, where: Tensor | None = None) -> Tensor:
        x = inputs
        for dense, norm, activation in self._steps:
            x = normalise(norm, dense(x), where, None)
            x = self.dropout(activations.apply(activation, x, where=where))
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], (*input_shape[-1:], *self.units)[-1])
