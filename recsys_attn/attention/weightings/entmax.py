"""Entmax and sparsemax: sparse weights that sum to one."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.checks import require_number
from recsys_attn.tensors import Tensor

_HALVINGS = 25  # the precision of float32 between 0 and 1


@WEIGHTINGS.register("entmax", sparsemax={"alpha": 2.0})
class Entmax(Weighting):
    """`weights = max((alpha - 1) logits - tau, 0) ^ (1 / (alpha - 1))`, with sum 1.

    The threshold tau is chosen such that the weights sum to one. Keys below it get no weight and no
    gradient. Computed in float32.

    Source: Peters et al., "Sparse Sequence-to-Sequence Models", ACL 2019, arXiv 1905.05702;
    sparsemax is of Martins and Astudillo, ICML 2016, arXiv 1602.02068.

    Args:
        alpha: Sparsity, above 1. 2 is sparsemax; towards 1 it becomes the softmax.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import Entmax
    >>> weights = Entmax(alpha=2.0)(np.array([[1.0, 0.5, -1.0]]))
    >>> np.asarray(weights).round(4).tolist()
    [[0.75, 0.25, 0.0]]
    """

    def __init__(self, alpha: float = 1.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        hint = "use the weighting 'softmax' for an alpha of 1"
        require_number("alpha", alpha, above=1, hint=hint)
        self.alpha = alpha

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        x = ops.cast(logits, "float32") * (self.alpha - 1)
        if allowed is not None:
            x = ops.where(allowed, x, NEVER)
        # Only differences matter; the largest entry becomes 0.
        x = x - ops.stop_gradient(ops.max(x, axis=-1, keepdims=True, initial=NEVER))
        constant = ops.stop_gradient(x)
        threshold = self._threshold(constant)
        # One Newton step: it removes the last error of the bisection and, with all but `total` held
        # constant, has the gradient of the exact threshold.
        total = ops.sum(self._power(x - threshold), axis=-1, keepdims=True)
        slope = ops.sum(self._slope(constant - threshold), axis=-1, keepdims=True)
        weights = self._power(x - threshold - (total - 1) / slope)
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        if allowed is not None:
            weights = weights * ops.cast(allowed, "float32")
        return ops.cast(weights, self.compute_dtype)

    def _threshold(self, x: Tensor) -> Tensor:
        """Finds the largest weight, `(-tau) ^ (1 / (alpha - 1))`, by bisection in [0, 1]."""
        low = ops.zeros_like(x[..., :1])
        high = ops.ones_like(low)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            weights = self._power(x + middle ** (self.alpha - 1))
            too_much = ops.sum(weights, axis=-1, keepdims=True) > 1
            low, high = ops.where(too_much, low, middle), ops.where(too_much, middle, high)
        return -(((low + high) / 2) ** (self.alpha - 1))

    def _power(self, x: Tensor) -> Tensor:
        return _positive_power(x, 1 / (self.alpha - 1))

    def _slope(self, x: Tensor) -> Tensor:
        """Returns the derivative of `_power`."""
        exponent = 1 / (self.alpha - 1)
        return exponent * _positive_power(x, exponent - 1)


def _positive_power(x: Tensor, exponent: float) -> Tensor:
    """Returns `x ^ exponent` for positive x and 0 otherwise, with a finite gradient."""
    positive = x > 0
    x = ops.where(positive, x, 1.0)
    if exponent == 2:  # for alpha = 1.5, and much faster than a power
        x = x * x
    elif exponent != 1:
        x = ops.power(x, exponent)
    return ops.where(positive, x, 0.0)
