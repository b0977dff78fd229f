"""The gate unit of PEPNet: a factor of each channel from a condition."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_positive
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class GateUnit(Layer):
    """Multiplies each channel by a factor from 0 to 2 that a condition decides (Gate NU).

    `output = x * 2 sigmoid(W_2 relu(W_1 c + b_1) + b_2)`

    Source: Chang et al., "PEPNet: Parameter and Embedding Personalized Network for Infusing with
    Personalized Prior Information", KDD 2023, arXiv 2302.01115.

    Args:
        units: Size of the hidden layer. More of them for a condition of many features.

    Call arguments:
        inputs: (..., E).
        condition: (..., C). PEPNet's has a copy of the inputs, in training without gradient by
            `ConstantInTraining`, so that the gate does not teach what it scales.

    Returns:
        The shape of the inputs.

    Raises:
        ValueError: `units` is not positive.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import GateUnit
    >>> hidden, scenario = keras.random.normal((2, 5, 8)), keras.random.normal((2, 5, 3))
    >>> tuple(GateUnit()(hidden, scenario).shape)
    (2, 5, 8)
    """

    def __init__(self, units: int = 64, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("units", units)
        self.units = units
        self.hidden = keras.layers.Dense(units, activation="relu", dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape, condition_shape: Shape) -> None:
        self.hidden.build(condition_shape)
        self.factors = keras.layers.Dense(inputs_shape[-1], dtype=self.dtype_policy)
        self.factors.build((*condition_shape[:-1], self.units))

    def call(self, inputs: Tensor, condition: Tensor) -> Tensor:
        factors = 2 * ops.sigmoid(self.factors(self.hidden(condition)))
        return inputs * held(factors)

    def compute_output_shape(self, inputs_shape: Shape, condition_shape: Shape) -> Shape:
        return inputs_shape
