"""DIN's activation unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    head_sizes,
    require_equal_sizes,
    swap_heads,
)
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.blocks import activations
from recsys_attn.blocks.mlp import Mlp as MlpBlock
from recsys_attn.checks import require_sizes
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("mlp")
class Mlp(Score):
    """`score = w^T mlp([q, k, q - k, q * k]) + b`, one network for all heads.

    The first layer is linear in those four blocks, so they are never concatenated:

    `q (W_q + W_d) + k (W_k - W_d) + (q * k) W_p = q (W_q + W_d) + k (W_k - W_d + q * W_p)`

    The last factor is one matrix per query, and the whole is one batched product with the keys.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978; the four blocks are those of the authors' code.

    Args:
        units: Sizes of the hidden layers. Defaults to (80, 40), as in the paper.
        activation: `"dice"`, with statistics of the allowed pairs only, or any Keras activation.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Mlp
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Mlp((16, 4))(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(
        self, units: Sequence[int] = (80, 40), activation: Any = "dice", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = require_sizes("units", units)
        if not self.units:
            raise ValueError("`units` must name at least one hidden layer. Received: units=()")
        self.activation = activations.serialize(activation)
        self.first_activation = activations.get(self.activation, dtype=self.dtype_policy)
        self.hidden = MlpBlock(self.units[1:], self.activation, dtype=self.dtype_policy)
        self.output_layer = keras.layers.Dense(1, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, key_size = head_sizes(query_shape, key_shape)
        size = require_equal_sizes(query_size, key_size, "Mlp")
        # The rows of W_q, W_k, W_d and W_p, in the order of [q, k, q - k, q * k].
        self.kernel = self.add_weight(
            shape=(4 * size, self.units[0]), initializer="glorot_uniform", name="kernel"
        )
        self.bias = self.add_weight(shape=self.units[:1], initializer="zeros", name="bias")
        hidden_shape = (None, heads, key_shape[1], query_shape[1], self.units[0])
        self.first_activation.build(hidden_shape)
        self.hidden.build(hidden_shape)
        self.output_layer.build((*hidden_shape[:-1], self.units[-1]))

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        # Keys come before queries until the end, so that all queries share one product.
        if allowed is not None:
            allowed = ops.swapaxes(allowed, 2, 3)
        hidden = self._first_layer(swap_heads(query), swap_heads(key))  # (B, N, S, T, U)
        hidden = activations.apply(self.first_activation, hidden, where=allowed)
        hidden = self.hidden(hidden, where=allowed)
        logits = ops.squeeze(self.output_layer(hidden), -1)
        return ops.swapaxes(logits, 2, 3)

    def _first_layer(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, N, T, H), (B, N, S, H) -> (B, N, S, T, U)."""
        of_query, of_key, of_difference, of_product = ops.split(self.kernel, 4, axis=0)
        per_query = ops.matmul(query, of_query + of_difference) + self.bias
        by_channel = ops.expand_dims(ops.swapaxes(query, 2, 3), -1)  # (B, N, H, T, 1)
        matrices = by_channel * of_product[:, None] + (of_key - of_difference)[:, None]
        batch, heads, size, queries, _ = ops.shape(by_channel)
        units = self.units[0]
        flat = ops.reshape(matrices, (batch, heads, size, queries * units))
        product = batched_matmul(key, flat)  # (B, N, S, T * U)
        product = ops.reshape(product, (*ops.shape(product)[:3], queries, units))
        return product + ops.expand_dims(per_query, 2)
