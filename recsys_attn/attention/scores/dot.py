"""The dot product."""

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


@keras.saving.register_keras_serializable(package="recsys_attn", name="scores.Dot")
class Dot(Score):
    """`score = q . k`, and `q . k / sqrt(H)` with `scale`.

    Named `"dot"` without and `"scaled_dot"` with `scale`.

    Sources: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025; scaled: Vaswani et al., "Attention Is All You Need", NIPS 2017,
    arXiv 1706.03762.

    Args:
        scale: Whether to divide by the square root of the head size, so that the variance of the
            logits does not grow with it.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Dot
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Dot(scale=True)(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(self, scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        require_equal_sizes(query_size, key_size, "Dot")

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        if self.scale:
            query = query * query.shape[-1] ** -0.5
        return batched_matmul(swap_heads(query), ops.transpose(key, (0, 2, 3, 1)))

    def get_config(self) -> Config:
        return {**super().get_config(), "scale": self.scale}
