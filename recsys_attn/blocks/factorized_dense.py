"""The factorised interaction layer of FINAL, in the place of a linear one."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_positive
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class FactorizedDense(Layer):
    """A linear layer, half of whose outputs are products: `[h, h * g]`, `[h, g] = W x + b`.

    So each layer doubles the order of the products of its inputs, with the weights of a linear
    layer. `Mlp(factorized=True)` is a stack of them.

    Source: Zhu et al., "FINAL: Factorized Interaction Layer for CTR Prediction", SIGIR 2023. The
    paper adds h and h * g, which takes twice the weights; its published results are of the form
    here, that of the authors' code.

    Args:
        units: Number of outputs, even.

    Call arguments:
        inputs: (..., D).

    Returns:
        (..., units).

    Raises:
        ValueError: `units` is odd or not positive.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import FactorizedDense
    >>> tuple(FactorizedDense(6)(keras.random.normal((2, 3, 8))).shape)
    (2, 3, 6)
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("units", units)
        if units % 2:
            raise ValueError(
                "`units` must be even, as half of the outputs are products. Received: "
                f"units={units}"
            )
        self.units = units
        self.linear = keras.layers.Dense(units, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        self.linear.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        hidden, factors = ops.split(self.linear(inputs), 2, axis=-1)
        return ops.concatenate([hidden, hidden * held(factors)], axis=-1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)
