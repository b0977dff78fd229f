"""Scales and offsets that depend on a condition."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Film(Layer):
    """Scales and shifts each channel by a condition, such as the scenario or the user.

    `output = (g + W_g c) * x + (b + W_b c)`, from `g = 1` and zeros: a new layer is the identity,
    so that it can be put into a trained model.

    Source: Perez et al., "FiLM: Visual Reasoning with a General Conditioning Layer", AAAI 2018,
    arXiv 1709.07871.

    Call arguments:
        inputs: (B, ..., E).
        condition: (B, C).

    Returns:
        The shape of the inputs.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import Film
    >>> events, scenario = keras.random.normal((2, 5, 8)), keras.random.normal((2, 3))
    >>> tuple(Film()(events, scenario).shape)
    (2, 5, 8)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, inputs_shape: Shape, condition_shape: Shape) -> None:
        width = inputs_shape[-1]
        sizes = (condition_shape[-1], width)
        if len(condition_shape) != 2 or None in sizes:
            raise ValueError(
                "`condition` must have shape (B, C) with a known size C. "
                f"Received: condition.shape={tuple(condition_shape)}"
            )
        self.scale = self.add_weight(shape=(width,), initializer="ones", name="scale")
        self.offset = self.add_weight(shape=(width,), initializer="zeros", name="offset")
        self.scale_kernel = self.add_weight(shape=sizes, initializer="zeros", name="scale_kernel")
        self.offset_kernel = self.add_weight(shape=sizes, initializer="zeros", name="offset_kernel")

    def call(self, inputs: Tensor, condition: Tensor) -> Tensor:
        condition = ops.cast(condition, inputs.dtype)
        scale = self.scale + ops.matmul(condition, self.scale_kernel)
        offset = self.offset + ops.matmul(condition, self.offset_kernel)
        shape = (-1, *[1] * (len(inputs.shape) - 2), inputs.shape[-1])
        return inputs * ops.reshape(scale, shape) + ops.reshape(offset, shape)

    def compute_output_shape(self, inputs_shape: Shape, condition_shape: Shape) -> Shape:
        return inputs_shape


@keras.saving.register_keras_serializable(package="recsys_attn")
class ConditionalNorm(Layer):
    """Layer normalisation whose scale and offset depend on a condition.

    `output = (x - mean) / sqrt(variance + epsilon) * (g + W_g c) + (b + W_b c)`

    Source: Su, "Conditional text generation by conditional layer normalization", 2019,
    spaces.ac.cn/archives/7124.

    Args:
        epsilon: Number added to the variance.

    Call arguments:
        inputs: (B, ..., E).
        condition: (B, C).

    Returns:
        The shape of the inputs.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import ConditionalNorm
    >>> events, scenario = keras.random.normal((2, 5, 8)), keras.random.normal((2, 3))
    >>> tuple(ConditionalNorm()(events, scenario).shape)
    (2, 5, 8)
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_number("epsilon", epsilon, least=0)
        self.norm = keras.layers.LayerNormalization(
            center=False, scale=False, epsilon=epsilon, dtype=self.dtype_policy
        )
        self.film = Film(dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape, condition_shape: Shape) -> None:
        self.norm.build(inputs_shape)
        self.film.build(inputs_shape, condition_shape)

    def call(self, inputs: Tensor, condition: Tensor) -> Tensor:
        return self.film(self.norm(inputs), condition)

    def compute_output_shape(self, inputs_shape: Shape, condition_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "epsilon": self.norm.epsilon}
