"""Logits as weights, without normalisation."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.tensors import Tensor


@WEIGHTINGS.register("identity")
class Identity(Weighting):
    """`weights = logits`, and 0 for pairs that are not allowed.

    The sum of the weights is the strength of an interest: a history with twice the events of a kind
        weighs twice as much.

    Logits without normalisation grow with the square of the inputs: vectors with entries of about
        60 exceed the range of float16, 65,504. Use float32 or bfloat16.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import Identity
    >>> weights = Identity()(np.array([[0.5, 2.0, 5.0]]), np.array([[True, True, False]]))
    >>> np.asarray(weights).tolist()
    [[0.5, 2.0, 0.0]]
    """

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        return logits if allowed is None else logits * ops.cast(allowed, logits.dtype)
