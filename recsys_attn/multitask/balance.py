"""A penalty on experts that are used unequally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.layer import Layer
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Balance(Layer):
    """Adds the inequality of the experts' importance to the loss, in training only.

    `loss += factor * var_e(I_e) / mean_e(I_e)^2`, the squared coefficient of variation of
    `I_e = sum_(rows, tasks) gate_e / n_e`, where n_e tasks may use the expert: 0 for equal
    importance, E - 1 if one of E experts has all.

    The tasks count together: each may choose experts of its own, and so may each row. With
    micro-batches the rows are those of one, and the penalty the mean over them.

    Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated
    Mixture-of-Experts Layer", ICLR 2017, arXiv 1701.06538, equations 6 and 7 (with one gate).

    Args:
        factor: Factor of the penalty. Raise it from 0.01 where an expert has died.

    Call arguments:
        gates: (..., tasks, E), the share of each expert.
        where: (...), False for rows that do not count.
        task_counts: Number of tasks that may use each expert (E,). Defaults to all tasks for each;
            the own experts of a task in `ProgressiveExperts` have one.

    Returns:
        The gates, unchanged.

    Raises:
        ValueError: `factor` is negative.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.multitask import Balance
    >>> balance = Balance(0.1)
    >>> gates = balance(np.array([[[1.0, 0.0]], [[1.0, 0.0]]]), training=True)
    >>> [round(float(loss), 3) for loss in balance.losses]
    [0.1]
    """

    adds_losses = True

    def __init__(self, factor: float = 0.01, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("factor", factor, least=0)
        self.factor = factor

    def call(
        self,
        gates: Tensor,
        where: Tensor | None = None,
        task_counts: Sequence[int] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        if training and self.factor:
            counted = ops.cast(gates, "float32")
            if where is not None:
                counted = counted * ops.cast(where, "float32")[..., None, None]
            importance = ops.sum(counted, axis=tuple(range(len(gates.shape) - 1)))
            if task_counts is not None:
                importance = importance / ops.convert_to_tensor(task_counts, "float32")
            # Of no rows, all shares are 0 and so is the penalty.
            shares = importance / ops.maximum(ops.sum(importance), 1e-9)
            self.add_loss(self.factor * gates.shape[-1] ** 2 * ops.var(shares))
        return gates
