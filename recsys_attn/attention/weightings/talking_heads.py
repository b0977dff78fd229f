"""Talking heads: mixing of heads before and after a weighting."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import (
    WEIGHTINGS,
    Weighting,
    build_weighting,
    heads_of,
    weights_of,
)
from recsys_attn.tensors import Shape, Tensor


@WEIGHTINGS.register("talking_heads")
class TalkingHeads(Weighting):
    """Mixes heads before and after a weighting: `W = weighting(P_l^T logits)`, `P_w^T W`.

    P_l and P_w are (N, N) and start as identities, so that initially this is the weighting alone.
    The rows of the mixed weights need not sum to one.

    Masks are applied after the first mixing, so that no very negative number is mixed. If `allowed`
    differs between heads, the logit and the weight of a pair that is not allowed in one head count
    as 0 for the other heads.

    Source: Shazeer et al., "Talking-Heads Attention", 2020, arXiv 2003.02436.

    Args:
        weighting: The weighting between the two mixings: an instance, a name or a config. Defaults
            to `"softmax"`.

    Call arguments:
        logits: (B, N, T, S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.
        query: (B, T, N, H), if the weighting needs it.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.weightings import TalkingHeads
    >>> logits = keras.random.normal((2, 4, 3, 5))
    >>> tuple(TalkingHeads("sigmoid")(logits).shape)
    (2, 4, 3, 5)
    """

    def __init__(self, weighting: Any = "softmax", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weighting = WEIGHTINGS.get(weighting, dtype=self.dtype_policy)
        self.needs_query = self.weighting.needs_query

    def build(self, logits_shape: Shape, query_shape: Shape | None = None) -> None:
        heads = heads_of(logits_shape)

        def weight(name: str) -> Tensor:
            return self.add_weight(shape=(heads, heads), initializer="identity", name=name)

        self.logits_kernel = weight("logits_kernel")
        self.weights_kernel = weight("weights_kernel")
        build_weighting(self, self.weighting, logits_shape, query_shape)

    def call(
        self, logits: Tensor, allowed: Tensor | None = None, query: Tensor | None = None
    ) -> Tensor:
        if allowed is not None:
            logits = ops.where(allowed, logits, 0.0)
        weights = weights_of(self.weighting, _mix(logits, self.logits_kernel), allowed, query)
        weights = _mix(weights, self.weights_kernel)
        return weights if allowed is None else weights * ops.cast(allowed, weights.dtype)

    def compute_output_shape(self, logits_shape: Shape, query_shape: Shape | None = None) -> Shape:
        return logits_shape


def _mix(x: Tensor, kernel: Tensor) -> Tensor:
    """(B, N, T, S), (N, M) -> (B, M, T, S)."""
    return ops.einsum("bnts,nm->bmts", x, kernel)
