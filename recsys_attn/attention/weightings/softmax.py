"""Weights that sum to one."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.weightings.base import Weighting
from recsys_attn.tensors import Tensor

# Far below any logit, and far enough from overflow for a bias to be added.
NEVER = float(np.finfo("float32").min / 2)


@keras.saving.register_keras_serializable(package="recsys_attn", name="weightings.Softmax")
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

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        return ops.cast(masked_softmax(logits, allowed), self.compute_dtype)


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
