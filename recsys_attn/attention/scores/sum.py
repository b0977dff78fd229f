"""Scores that add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.scores.base import Score, logits_of
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="scores.Sum")
class Sum(Score):
    """`score = score_1 + score_2 + ...`; written `first + second`.

    Args:
        scores: The scores, or their configs.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions, key_positions: Integers that broadcast to (B, N, T) and (B, N, S), for
            the scores that look at positions.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Additive, Dot
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple((Dot(scale=True) + Additive())(query, key).shape)
    (2, 1, 3, 5)
    """

    positional = True

    def __init__(self, scores: Sequence[Score], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scores = [deserialize(score) for score in scores]
        for score in self.scores:
            if not isinstance(score, Score):
                raise TypeError(
                    "A score adds up with scores. "
                    f"Received: {score!r} of type {type(score).__name__}"
                )
        self.positional = any(score.positional for score in self.scores)
        self.shares_query_and_key = any(score.shares_query_and_key for score in self.scores)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        for score in self.scores:
            if not score.built:  # it may be shared
                score.build(query_shape, key_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        total = None
        for score in self.scores:
            logits = logits_of(score, query, key, allowed, query_positions, key_positions)
            total = logits if total is None else ops.add(total, logits)
        return total

    def get_config(self) -> Config:
        return {**super().get_config(), "scores": [serialize(score) for score in self.scores]}
