"""Scores that add up."""

from __future__ import annotations

import functools

import keras
from keras import ops

from recsys_attn.attention.scores.several import Several
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="scores.Sum")
class Sum(Several):
    """`score = score_1 + score_2 + ...`; written `first + second`.

    Args:
        scores: The scores: instances, names or configs.

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

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        return functools.reduce(
            ops.add, self.each(query, key, allowed, query_positions, key_positions)
        )
