"""Weights that sum to one."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.backend.compiling import fused
from recsys_attn.tensors import Tensor

# Far below any logit, and far enough from overflow for a bias to be added.
NEVER = float(np.finfo("float32").min / 2)


@WEIGHTINGS.register("softmax")
class Softmax(Weighting):
    """`weights = softmax(logits)` over the keys that are allowed, computed in float32.

    A query that may attend nothing gets zeros.

    Call arguments:
        logits: (..., S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import Softmax
    >>> weights = Softmax()(np.array([[0.0, 0.0, 5.0]]), np.array([[True, True, False]]))
    >>> np.asarray(weights).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def call(
        self, logits: Tensor, allowed: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        if training:
            weights = _in_training(logits) if allowed is None else _in_training(logits, allowed)
        else:
            weights = masked_softmax(logits, allowed)
        return ops.cast(weights, self.compute_dtype)


def masked_softmax(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """The softmax over what is allowed, in float32; zeros where nothing is."""
    logits = ops.cast(logits, "float32")
    if allowed is None:
        return _softmax(logits)
    # A sum, because `where` would pass over all pairs on the way back too.
    weights = _softmax(logits + NEVER * ops.cast(ops.logical_not(allowed), "float32"))
    # Next to a logit that is allowed the others are zero already; alone they are all 1/S.
    some = ops.any(allowed, axis=-1, keepdims=True)
    return weights * ops.cast(some, "float32")


def _softmax(logits: Tensor) -> Tensor:
    # Keras warns of a softmax over one entry; a history of one event is no mistake.
    return ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits)


def _in_one_pass(logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """`masked_softmax` in the dtype of the logits, in operations that XLA puts into two loops.

    Of logits that are integers in float32.
    """
    dtype, some = keras.backend.result_type(logits.dtype, float), 1.0
    logits = ops.cast(logits, "float32")
    if allowed is not None:
        logits = logits + NEVER * ops.cast(ops.logical_not(allowed), "float32")
        some = ops.cast(ops.any(allowed, axis=-1, keepdims=True), "float32")
    # Of a batch of nothing there is a maximum only where it has a least value. Logits that are
    # banned twice, by a mask and by a bias, are less than `NEVER`.
    most = ops.max(logits, axis=-1, keepdims=True, initial=-np.inf)
    weights = ops.exp(logits - ops.stop_gradient(most))
    return ops.cast(weights * (some / ops.sum(weights, axis=-1, keepdims=True)), dtype)


def _gradient(weights: Tensor, by_weights: Tensor) -> Tensor:
    """That by the logits."""
    dtype = weights.dtype
    weights, by_weights = ops.cast(weights, "float32"), ops.cast(by_weights, "float32")
    mean = ops.sum(weights * by_weights, axis=-1, keepdims=True)
    return ops.cast(weights * (by_weights - mean), dtype)


_in_training = fused(_in_one_pass, _gradient)
