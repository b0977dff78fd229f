"""DIN's target attention: candidates look at what happened before."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.attention.attention import Attention
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TargetAttention(keras.layers.Layer):
    """A candidate's view of a history: its events, weighted by how much they say about it.

    `output[t] = sum_s weighting(score(query[t], history[s])) * history[s]`

    With the defaults this is DIN: the score is its activation unit, an MLP over
    `[q, k, q - k, q * k]` with Dice, and the weights are not normalised, so that their sum tells
    how strong the interest is. An empty history gives zeros.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978. The authors' code normalises with a softmax: `weighting="softmax"`.

    Args:
        score: An instance, a name or a config of `recsys_attn.attention.scores`.
        weighting: An instance, a name or a config of `recsys_attn.attention.weightings`.

    Call arguments:
        query: (B, T, E), T candidates.
        history: (B, S, E), one history for all of them. Its B may be 1.
        history_mask: (B, S), False for padding.
        query_mask: (B, T), False for padded candidates, which get zeros.
        return_weights: Whether to return the weights too.

    Returns:
        (B, T, E), and with `return_weights` also (B, T, S).

    Raises:
        ValueError: `score` or `weighting` is not known, or a mask does not fit its tensor.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.interactions import TargetAttention
    >>> candidates = keras.random.normal((2, 3, 8))
    >>> history = keras.random.normal((2, 5, 8))
    >>> present = np.array([[True, True, True, False, False], [False] * 5])
    >>> tuple(TargetAttention()(candidates, history, history_mask=present).shape)
    (2, 3, 8)
    """

    def __init__(self, score: Any = "mlp", weighting: Any = "identity", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # masks that Keras finds on the inputs become arguments
        policy = self.dtype_policy
        self.attention = Attention(Dense(score, weighting=weighting, dtype=policy), dtype=policy)

    def build(self, query_shape: Shape, history_shape: Shape) -> None:
        self.attention.build(query_shape, history_shape)

    def call(
        self,
        query: Tensor,
        history: Tensor,
        history_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        return self.attention(
            query,
            history,
            query_mask=query_mask,
            key_mask=history_mask,
            return_weights=return_weights,
        )

    def compute_output_shape(self, query_shape: Shape, history_shape: Shape) -> Shape:
        return self.attention.compute_output_shape(query_shape, history_shape)

    def compute_output_spec(
        self,
        query: Tensor,
        history: Tensor,
        history_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        return self.attention.compute_output_spec(query, history, return_weights=return_weights)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "score": serialize(self.attention.mechanism.score),
            "weighting": serialize(self.attention.mechanism.weighting),
        }
