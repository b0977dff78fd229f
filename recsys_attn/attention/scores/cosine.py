"""The cosine score."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import dot_products, head_sizes, require_equal_sizes
from recsys_attn.attention.core.normalise import unit
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.checks import require_number
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("cosine")
class Cosine(Score):
    """`score = q . k / (|q| |k| temperature)`; 0, without gradient, if q or k is zero.

    Cosines lie in [-1, 1], so that a softmax over many of them is nearly flat: a temperature
    below 1 sharpens it.

    Source: Graves et al., "Neural Turing Machines", 2014, arXiv 1410.5401, where the sharpness
    is `beta = 1 / temperature`.

    Args:
        temperature: Divisor of the cosine. Defaults to 1; lower it for sharper weights.

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
        require_number("temperature", temperature, above=0)
        self.temperature = temperature

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        require_equal_sizes(query_size, key_size, "Cosine")

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        query = ops.cast(unit(query, 1 / self.temperature), self.compute_dtype)
        key = ops.cast(unit(key), self.compute_dtype)
        return dot_products(query, key)
