"""Every query against every key."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention import patterns, scores, weightings
from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    broadcast_batch,
    logits_shape,
    require_a_value_a_key,
    swap_heads,
)
from recsys_attn.attention.core.pairs import allowed_pairs, both, pairwise
from recsys_attn.attention.core.positions import length_of, pairs, per_head, resolve
from recsys_attn.attention.mechanisms.base import MECHANISMS
from recsys_attn.attention.patterns.base import check_heads, require_steady
from recsys_attn.attention.scores.base import logits_of
from recsys_attn.attention.scores.lookup import fitting
from recsys_attn.attention.weightings.base import build_weighting, weights_of
from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.checks import require_share
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@MECHANISMS.register("dense")
class Dense(Layer):
    """`output[t] = sum_s weighting(score(query[t], key[s])) * value[s]`, for each head.

    Time and memory grow with T times S. A query that may attend nothing gets zeros.

    Args:
        score: How similar a query is to a key: an instance, a name or a config of
            `recsys_attn.attention.scores`.
        pattern: Which keys a query may attend; of `recsys_attn.attention.patterns`. All where
            None.
        weighting: How the scores become weights; of `recsys_attn.attention.weightings`.
        dropout: Share of the weights that is dropped in training.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        query_mask: (B, T), False for padded queries, which get zeros.
        key_mask: (B, S), False for padded keys, which nothing attends.
        attention_mask: (B, T, S) or (B, N, T, S), False for pairs that must not meet.
        attention_bias: (B, T, S) or (B, N, T, S), added to the scores. A mask belongs in
            `attention_mask`: of a row of -inf alone the softmax is even, not zeros.
        query_positions, key_positions: (B, T) and (B, S), integers for scores and patterns that
            look at positions. By default the keys stand at 0 ... S-1 and the queries are the
            last T of them.

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

    returns_weights = True

    elsewhere: ClassVar = {
        "gate": "a gate belongs to the layer around, such as MultiHeadAttention",
        "disagreement": "it belongs to the layer around, such as MultiHeadAttention",
        "causal": "give pattern='causal'",
    }

    def __init__(
        self,
        score: Any = "scaled_dot",
        pattern: Any = None,
        *,
        weighting: Any = "softmax",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.pattern = None if pattern is None else patterns.get(pattern)
        require_steady(self.pattern)
        self.weighting = weightings.get(weighting, dtype=self.dtype_policy)
        require_share("dropout", dropout)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        check_heads(self.pattern, key_shape[2])
        build_part(self, "score", self.score, query_shape, key_shape)
        build_weighting(self, self.weighting, logits_shape(query_shape, key_shape), query_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        key = fitting(key, self.score.most_keys)
        rows, columns = per_head(query.shape, key.shape, query_positions, key_positions)
        allowed = allowed_pairs(query.shape, key.shape, query_mask, key_mask, attention_mask)
        if self.pattern is not None:
            length = length_of(key, columns, key_mask)
            pattern = self.pattern(*pairs(*resolve(query, key, rows, columns)), length)
            allowed = both(pattern, allowed)
        logits = logits_of(self.score, query, key, allowed, rows, columns)
        if attention_bias is not None:
            bias = pairwise("attention_bias", attention_bias, query.shape, key.shape)
            # -inf in a whole row would be NaN in its softmax. float16 ends at -65504. Half of
            # `NEVER` is more than what a mask bans, and the sum of both is finite in bfloat16 too.
            lowest = -6e4 if self.weighting.compute_dtype == "float16" else NEVER / 2
            logits = ops.maximum(ops.add(ops.cast(logits, "float32"), bias), lowest)
        weights = weights_of(self.weighting, logits, allowed, query)
        weights = ops.cast(weights, self.compute_dtype)
        output = batched_matmul(self.dropout(weights), swap_heads(value))
        return swap_heads(output), weights

    @property
    def shares_query_and_key(self) -> bool:
        """Whether the layer around it makes the keys with the projection of the queries."""
        return self.score.shares_query_and_key

    @property
    def positional(self) -> bool:
        """Whether it looks at where queries and keys stand."""
        return self.score.positional or self.pattern is not None

    @property
    def uses_query(self) -> bool:
        """Whether it looks at what a query holds."""
        return self.score.uses_query or self.weighting.needs_query

    @property
    def uses_key(self) -> bool:
        """Whether it looks at what a key holds."""
        return self.score.uses_key

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
            "pattern": serialize(self.pattern),
            "weighting": serialize(self.weighting),
            "dropout": self.dropout.rate,
        }
