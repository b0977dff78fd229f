"""HSTU's weighting."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting, everywhere
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor


@WEIGHTINGS.register("silu")
class Silu(Weighting):
    """`weights = silu(logits) / length`, and 0 for pairs that are not allowed, in float32.

    The sum of the weights is the strength of an interest, relative to the length.

    Logits without normalisation grow with the square of the inputs: vectors with entries of about
        60 exceed the range of float16, 65,504. Use float32 or bfloat16.

    Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential
    Transducers for Generative Recommendations", ICML 2024, arXiv 2402.17152.

    Args:
        length: Divisor of the weights. A number, as in the paper (the padded length of histories),
            gives a long history more weight than a short one. Defaults to the number of keys that
            the query may attend. In both cases padding changes nothing.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import Silu
    >>> weights = Silu()(np.array([[20.0, 40.0, 9.0]]), np.array([[True, True, False]]))
    >>> np.asarray(weights).tolist()
    [[10.0, 20.0, 0.0]]
    """

    def __init__(self, length: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        self.length = length

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        logits = ops.cast(logits, "float32")
        mask = ops.cast(everywhere(allowed, logits), "float32")
        length = self.length
        if length is None:
            length = ops.maximum(ops.sum(mask, axis=-1, keepdims=True), 1.0)
        return ops.cast(ops.silu(logits) * mask / length, self.compute_dtype)
