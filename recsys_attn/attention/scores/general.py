"""The bilinear score, and HAN's context vector."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    dot_products,
    head_sizes,
    per_head,
    swap_heads,
)
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.blocks import activations
from recsys_attn.checks import require_bool
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("general")
class General(Score):
    """`score = q . act(W k + b)`, with a matrix W and a bias b for each head.

    Without activation and bias it is Luong's "general" score, the bilinear form `q^T W k`. With
    `activation="tanh"` and a bias it is HAN's score with the query as context vector. Queries and
    keys may have different sizes.

    Sources: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025; Yang et al., "Hierarchical Attention Networks for Document
    Classification", NAACL-HLT 2016, equations 5 and 6.

    Args:
        activation: Any Keras activation of the projected key. Defaults to none.
        use_bias: Whether to add b. Defaults to False.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import General
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(General(activation="tanh", use_bias=True)(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(self, activation: Any = None, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_bool("use_bias", use_bias)
        self.activation = activations.function("activation", activation)
        self.use_bias = use_bias

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, key_size = head_sizes(query_shape, key_shape)
        self.kernel = self.add_weight(
            shape=(heads, query_size, key_size),
            initializer=blockwise(heads, axis=0),
            name="kernel",
        )
        if self.use_bias:
            self.bias = self.add_weight(shape=(heads, query_size), initializer="zeros", name="bias")

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        if self.activation is keras.activations.linear and not self.use_bias:
            # Usually there are fewer queries than keys.
            return batched_matmul(per_head(query, self.kernel), ops.transpose(key, (0, 2, 3, 1)))
        hidden = per_head(key, ops.swapaxes(self.kernel, 1, 2))  # (B, N, S, H)
        if self.use_bias:
            hidden = hidden + self.bias[:, None]
        return dot_products(query, swap_heads(self.activation(hidden)))
