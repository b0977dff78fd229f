"""Losses for requests with several candidates."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class CandidateCrossentropy(keras.losses.Loss):
    """Binary cross-entropy of logits, one value per candidate.

    `loss = -y log sigmoid(z) - (1 - y) log(1 - sigmoid(z))`. Keras' loss takes the mean over the
    last axis, here the candidates, before sample weights can remove padded candidates and unknown
    labels. This loss keeps `(B, T)` and divides by the sum of the weights.

    Args:
        reduction: Reduction over all candidates, a name of Keras.
        name: Name of the loss.

    Call arguments:
        y_true: `(B, T)`, 0 or 1.
        y_pred: Logits `(B, T)`.
        sample_weight: `(B, T)`, 0 for candidates that do not count.

    Returns:
        The loss, a scalar.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.losses import CandidateCrossentropy
    >>> label, logit = np.array([[1.0, 0.0]]), np.array([[0.0, 9.0]])
    >>> loss = CandidateCrossentropy()(label, logit, sample_weight=np.array([[1.0, 0.0]]))
    >>> round(float(loss), 3)
    0.693
    """

    def __init__(
        self, reduction: str = "mean_with_sample_weight", name: str = "candidate_crossentropy"
    ) -> None:
        super().__init__(reduction=reduction, name=name)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return ops.binary_crossentropy(y_true, y_pred, from_logits=True)
