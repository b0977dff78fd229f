"""The masked softmax."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting
from recsys_attn.backend.compiling import fused
from recsys_attn.tensors import Tensor

# Below every logit, and far enough from overflow for adding a bias.
NEVER = float(np.finfo("float32").min / 2)


@WEIGHTINGS.register("softmax")
class Softmax(Weighting):
    """`weights = softmax(logits)` over the allowed keys, computed in float32.

    The weights of a query that may attend no key are zero.

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
    """Returns the softmax over the allowed keys, in float32; zeros if there are none."""
    logits = ops.cast(logits, "float32")
    if allowed is None:
        return _softmax(logits)
    # A sum, because `where` costs another pass over all pairs in the backward pass.
    weights = _softmax(logits + NEVER * ops.cast(ops.logical_not(allowed), "float32"))
    # Beside an allowed logit the others are already zero; without one all are 1/S.
    some = ops.any(allowed, axis=-1, keepdims=True)
    return weights * ops.cast(some, "float32")


def _softmax(logits: Tensor) -> Tensor:
    # Keras warns of a softmax over one entry, but a history may have one event.
    return ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits)


def _in_one_pass(logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """`masked_softmax` in the dtype of the logits (float32 for integers), in two loops of XLA."""
    dtype, some = keras.backend.result_type(logits.dtype, float), 1.0
    logits = ops.cast(logits, "float32")
    if allowed is not None:
        logits = logits + NEVER * ops.cast(ops.logical_not(allowed), "float32")
        some = ops.cast(ops.any(allowed, axis=-1, keepdims=True), "float32")
    # `initial`: an empty batch has no maximum otherwise. Logits with a mask and a bias may be below
    # `NEVER`.
    most = ops.max(logits, axis=-1, keepdims=True, initial=-np.inf)
    weights = ops.exp(logits - ops.stop_gradient(most))
    return ops.cast(weights * (some / ops.sum(weights, axis=-1, keepdims=True)), dtype)


def _gradient(weights: Tensor, by_weights: Tensor) -> Tensor:
    """Returns the gradient by the logits."""
    dtype = weights.dtype
    weights, by_weights = ops.cast(weights, "float32"), ops.cast(by_weights, "float32")
    mean = ops.sum(weights * by_weights, axis=-1, keepdims=True)
    return ops.cast(weights * (by_weights - mean), dtype)


_in_training = fused(_in_one_pass, _gradient)
