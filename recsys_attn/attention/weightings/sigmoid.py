"""Weights that do not compete."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.checks import require_number
from recsys_attn.tensors import Config, Tensor


@WEIGHTINGS.register("sigmoid")
class Sigmoid(Weighting):
    """`weights = sigmoid(logits + bias)`, and 0 where not allowed, computed in float32.

    Each key is weighed on its own: a second interest takes nothing from the first. The weights
    of S keys sum to about S / 2 at first; a bias of `-log(S)` makes that about one, as the paper
    recommends.

    Source: Ramapuram et al., "Theory, Analysis, and Best Practices for Sigmoid Self-Attention",
    ICLR 2025, arXiv 2409.04431.

    Args:
        bias: What is added to every logit.

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

    def get_config(self) -> Config:
        return {**super().get_config(), "bias": self.bias}
