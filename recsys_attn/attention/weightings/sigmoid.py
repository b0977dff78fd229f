"""Independent weights by a sigmoid."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.checks import require_number
from recsys_attn.tensors import Tensor


@WEIGHTINGS.register("sigmoid")
class Sigmoid(Weighting):
    """`weights = sigmoid(logits + bias)`, and 0 for pairs that are not allowed, in float32.

    The weight of a key does not depend on the other keys. The initial sum over S keys is about S /
    2; the paper recommends a bias of `-log(S)`, with which it is about one.

    Source: Ramapuram et al., "Theory, Analysis, and Best Practices for Sigmoid Self-Attention",
    ICLR 2025, arXiv 2409.04431.

    Args:
        bias: Number added to every logit. Defaults to 0; set it to `-log(S)`.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import Sigmoid
    >>> weights = Sigmoid()(np.array([[0.0, 9.0]]), np.array([[True, False]]))
    >>> np.asarray(weights).tolist()
    [[0.5, 0.0]]
    """

    def __init__(self, bias: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("bias", bias)
        self.bias = bias

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        weights = ops.sigmoid(ops.cast(logits, "float32") + self.bias)
        if allowed is not None:
            weights = weights * ops.cast(allowed, "float32")
        return ops.cast(weights, self.compute_dtype)
