"""A softmax over the few largest logits."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting, everywhere
from recsys_attn.attention.weightings.softmax import NEVER, masked_softmax
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor


@WEIGHTINGS.register("top_k")
class TopK(Weighting):
    """`weights = softmax(logits)` over the k largest allowed logits, 0 elsewhere.

    All keys with a logit equal to the k-th largest count. With k or fewer allowed keys it equals
    `Softmax`. All logits are computed, so it saves no time; it removes noise.

    Source: Zhao et al., "Explicit Sparse Transformer: Concentrated Attention Through Explicit
    Selection", 2019, arXiv 1912.11637.

    Args:
        k: Largest number of keys that a query attends, apart from ties.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import TopK
    >>> np.asarray(TopK(2)(np.array([[1.0, 5.0, 5.0, 2.0]]))).tolist()
    [[0.0, 0.5, 0.5, 0.0]]
    """

    def __init__(self, k: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("k", k)
        self.k = k

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        logits = ops.cast(logits, "float32")
        allowed = everywhere(allowed, logits)
        candidates = ops.where(allowed, ops.stop_gradient(logits), NEVER)
        keys = ops.shape(logits)[-1]  # an integer if known: JAX needs one
        k = min(self.k, keys) if isinstance(keys, int) else ops.minimum(self.k, keys)
        largest, _ = ops.top_k(candidates, k)
        chosen = candidates >= largest[..., -1:]
        weights = masked_softmax(logits, ops.logical_and(allowed, chosen))
        return ops.cast(weights, self.compute_dtype)
