"""Every query against every key."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import scores, weightings
from recsys_attn.attention.layout import (
    batched_matmul,
    broadcast_batch,
    logits_shape,
    swap_heads,
)
from recsys_attn.attention.masks import allowed_pairs
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="mechanisms.Dense")
class Dense(keras.layers.Layer):
    """`output[t] = sum_s weighting(score(query[t], key[s])) * value[s]`, for each head.

    Time and memory grow with T times S. A query that may attend nothing gets zeros.

    Args:
        score: How similar a query is to a key: an instance, a name or a config of
            `recsys_attn.attention.scores`.
        weighting: How the scores become weights; of `recsys_attn.attention.weightings`.
        dropout: Share of the weights that is dropped in training.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        query_mask: (B, T), False for padded queries, which get zeros.
        key_mask: (B, S), False for padded keys, which nothing attends.
        attention_mask: (B, T, S) or (B, N, T, S), False for pairs that must not meet.

    B of the queries may be 1 where that of the keys is not, and the other way round. Padded
    values must be finite.

    Returns:
        The output of each head (B, T, N, V) and the weights before dropout (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense
    >>> query = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> output, weights = Dense("additive")(query, history, history)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 4, 8), (2, 4, 3, 5))
    """

    def __init__(
        self,
        score: Any = "scaled_dot",
        *,
        weighting: Any = "softmax",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.weighting = weightings.get(weighting, dtype=self.dtype_policy)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        if tuple(key_shape[1:3]) != tuple(value_shape[1:3]):
            raise ValueError(
                "`key` and `value` must have shapes (B, S, N, H) and (B, S, N, V) with the same "
                f"S and N. Received: key.shape={key_shape}, value.shape={value_shape}"
            )
        if not self.score.built:  # it may be shared
            self.score.build(query_shape, key_shape)
        if not self.weighting.built:
            self.weighting.build(logits_shape(query_shape, key_shape))

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        allowed = allowed_pairs(query.shape, key.shape, query_mask, key_mask, attention_mask)
        logits = self.score(query, key, allowed=allowed)
        weights = self.weighting(logits, allowed=allowed)
        weights = ops.cast(weights, self.compute_dtype)
        output = batched_matmul(self.dropout(weights), swap_heads(value))
        return swap_heads(output), weights

    def compute_output_shape(
        self, query_shape: Shape, key_shape: Shape, value_shape: Shape
    ) -> tuple[Shape, Shape]:
        weights_shape = logits_shape(query_shape, key_shape)
        batch = broadcast_batch(weights_shape[0], value_shape[0])
        return (batch, *query_shape[1:3], value_shape[-1]), weights_shape

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "score": serialize(self.score),
            "weighting": serialize(self.weighting),
            "dropout": self.dropout.rate,
        }
