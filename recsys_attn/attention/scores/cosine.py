"""The cosine."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.layout import (
    batched_matmul,
    head_sizes,
    require_equal_sizes,
    swap_heads,
)
from recsys_attn.attention.scores.base import Score
from recsys_attn.tensors import Config, Shape, Tensor

_EPSILON = 1e-12  # squared norm up to which a vector counts as zero


@keras.saving.register_keras_serializable(package="recsys_attn", name="scores.Cosine")
class Cosine(Score):
    """`score = q . k / (|q| |k| temperature)`; 0, and without gradient, where q or k is zero.

    Cosines lie in [-1, 1], so that a softmax over many of them is nearly flat: a temperature
    below 1 sharpens it.

    Source: Graves et al., "Neural Turing Machines", 2014, arXiv 1410.5401, where the sharpness
    is `beta = 1 / temperature`.

    Args:
        temperature: What the cosine is divided by.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Cosine
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Cosine(temperature=0.1)(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(self, temperature: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if temperature <= 0:
            raise ValueError(f"`temperature` must be positive. Received: {temperature}")
        self.temperature = temperature

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        require_equal_sizes(query_size, key_size, "Cosine")

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        query = self._unit(query, 1 / self.temperature)
        return batched_matmul(swap_heads(query), ops.transpose(self._unit(key), (0, 2, 3, 1)))

    def _unit(self, x: Tensor, length: float = 1.0) -> Tensor:
        # In float32: the squares of small embeddings vanish in half precision.
        x = ops.cast(x, "float32")
        squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
        # A zero vector has no direction; without the two wheres its gradient would be huge.
        some = ops.greater(squared, _EPSILON)
        scale = ops.where(some, length * ops.rsqrt(ops.where(some, squared, 1.0)), 0.0)
        return ops.cast(x * scale, self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "temperature": self.temperature}
