"""Tasks in an order, each of which happens only after the one before: click, cart, buy."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import mean_where
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ProbabilityChain(Layer):
    """Makes logits of conditional probabilities those of the products along the chain (ESMM).

    `P_k = sigmoid(z_1) ... sigmoid(z_k)`, where `sigmoid(z_k)` is the probability of task k given
    task k - 1. In logits, with `odds = P / (1 - P)`, from one task to the next:

    `1 / odds_k = (1 + 1 / odds_(k-1)) (1 + exp(-z_k)) - 1`, so
    `logit_k = -logsumexp(-logit_(k-1), -z_k, -logit_(k-1) - z_k)`

    which neither overflows nor loses the small probabilities in any precision.

    Source: Ma et al., "Entire Space Multi-Task Model: An Effective Approach for Estimating
    Post-Click Conversion Rate", SIGIR 2018, arXiv 1804.07931, for two tasks.

    Computes in float32 unless it has a `dtype`: a sigmoid needs more precision than bfloat16.

    Call arguments:
        logits: (..., tasks), of the conditional probabilities, in the order of the chain.
        where: Unused: no statistics of rows enter.

    Returns:
        (..., tasks), the logits of the products. They fall along the chain.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.multitask import ProbabilityChain
    >>> logits = ProbabilityChain()(np.array([[0.0, 0.0, 100.0]], "float32"))
    >>> np.round(1 / (1 + np.exp(-np.asarray(logits))), 4).tolist()
    [[0.5, 0.25, 0.25]]
    """

    same_rows = True  # a label after a task that did not happen is 0, not unknown
    falls = True  # no probability is above the one before

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, logits: Tensor, where: Tensor | None = None) -> Tensor:
        first, *others = ops.unstack(-logits, logits.shape[-1], axis=-1)
        chain = [first]
        for logit in others:
            before = chain[-1]
            terms = ops.stack([before, logit, before + logit], axis=-1)
            chain.append(ops.logsumexp(terms, axis=-1))
        return -ops.stack(chain, axis=-1)

    def compute_output_shape(self, logits_shape: Shape) -> Shape:
        return logits_shape


@keras.saving.register_keras_serializable(package="recsys_attn")
class OrderPenalty(Layer):
    """A penalty on a task that is more probable than the one before; returns its inputs.

    `penalty = weight * mean over rows of sum_k max(p_(k+1) - p_k, 0)`, `p = sigmoid(logits)`, added
    to the loss in training: AITM's behavioural expectation calibrator. The mean does not depend on
    the size of a batch.

    Source: Xi et al., "Modeling the Sequential Dependence among Audience Multi-step Conversions
    with Multi-task Learning in Targeted Display Advertising", KDD 2021, arXiv 2105.08489.

    Args:
        weight: Weight of the penalty, the paper's by default. Raise it if the order is still
            broken in the predictions.

    Call arguments:
        logits: (..., tasks), in the order of the tasks.
        where: (...), False for rows that do not count.

    Returns:
        The logits.

    Raises:
        ValueError: `weight` is negative or not finite.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.multitask import OrderPenalty
    >>> penalty = OrderPenalty(weight=1.0)
    >>> logits = penalty(np.array([[0.0, 100.0], [0.0, 0.0]], "float32"), training=True)
    >>> float(penalty.losses[0])
    0.25
    """

    adds_losses = True

    def __init__(self, weight: float = 0.6, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})  # as of `ProbabilityChain`
        require_number("weight", weight, least=0)
        self.weight = weight

    @property
    def same_rows(self) -> bool:
        """Whether labels are compared: one after a task that did not happen is 0, not unknown."""
        return self.weight > 0

    def call(
        self, logits: Tensor, where: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        if training and self.weight:
            p = ops.sigmoid(ops.cast(logits, "float32"))
            excess = ops.sum(ops.relu(p[..., 1:] - p[..., :-1]), axis=-1)
            self.add_loss(self.weight * mean_where(excess, where))
        return logits

    def compute_output_shape(self, logits_shape: Shape) -> Shape:
        return logits_shape
