"""A weighted sum of scores, with learned weights."""

from __future__ import annotations

import functools

from keras import ops

from recsys_attn.attention.scores.base import SCORES, Several
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("mixture")
class Mixture(Several):
    """`score = a_1 score_1 + a_2 score_2 + ...`, with positive learned a that sum to 1.

    The logits are mixed, not the weights. `a = softmax(c)` with c initially zero: equal shares.

    Source: Tay et al., "Synthesizer: Rethinking Self-Attention in Transformer Models", ICML 2021,
    arXiv 2005.00743.

    Args:
        scores: The scores: instances, names or configs.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Mixture
    >>> fields = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Mixture(["random_synthesizer", "scaled_dot"])(fields, fields).shape)
    (2, 1, 5, 5)
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        super().build(query_shape, key_shape)
        self.proportions = self.add_weight(
            shape=(len(self.scores),), initializer="zeros", name="proportions", autocast=False
        )

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        # Not `ops.softmax`, which warns of a single score.
        shares = ops.exp(self.proportions - ops.logsumexp(self.proportions))
        shares = ops.cast(shares, self.compute_dtype)
        terms = self.terms(query, key, allowed, query_positions, key_positions)
        return functools.reduce(
            ops.add, [shares[index] * logits for index, logits in enumerate(terms)]
        )
