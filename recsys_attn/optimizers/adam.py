"""Adam for embedding tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.optimizers.row_optimizer import RowOptimizer
from recsys_attn.tensors import Config, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class LazyAdam(RowOptimizer):
    """Adam with a cost per step that does not depend on the size of the tables.

    For touched rows, with the gradient g and the step t:

    `m += (1 - beta_1) (g - m)`, `v += (1 - beta_2) (g^2 - v)`,
    `row -= learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)`

    It differs from Adam for rows that a batch does not touch: their moments do not decay, and they
        do not move by momentum. Rows touched in every step get Adam's values. As in other lazy
        Adams, t counts the steps of the optimizer, not those that touch the row. So the first
        update of a row after many steps lacks the bias correction: it is up to `(1 - beta_1) /
        sqrt(1 - beta_2)` times as large as usual, 3.2 with the defaults.

    It keeps two numbers per number of a table. A table in pure bfloat16 does not change, as in
    Keras' Adam: there a `beta_2` of 0.999 is 1, and the rate is zero. Use `"mixed_bfloat16"`.

    Args:
        learning_rate: A float or a `LearningRateSchedule`.
        beta_1, beta_2: Decay of the first and of the second moment.
        epsilon: Small number that keeps the division finite.
        options: Arguments of `RowOptimizer`.

    Source:
        Kingma and Ba, 2015 (arXiv 1412.6980); `LazyAdam` of TensorFlow Addons.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.optimizers import LazyAdam
    >>> model = keras.Sequential([keras.Input(()), keras.layers.Embedding(7, 2)])
    >>> model.compile(LazyAdam(0.1), "mse", jit_compile=False)
    >>> before = model.get_weights()[0]
    >>> _ = model.fit(np.array([3, 5, 3]), np.ones((3, 2)), verbose=0)
    >>> np.flatnonzero(np.any(model.get_weights()[0] != before, axis=1)).tolist()
    [3, 5]
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        require_number("beta_1", beta_1, least=0, below=1)
        require_number("beta_2", beta_2, least=0, below=1)
        require_number("epsilon", epsilon, least=0)
        super().__init__(learning_rate, **options)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def make_slots(self, variable: keras.Variable, *, table: bool) -> list[keras.Variable]:
        return [self.add_variable_from_reference(variable, n) for n in ("momentum", "velocity")]

    def formula(
        self, gradient: Tensor, value: Tensor, slots: Sequence[Tensor], learning_rate: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        step = ops.cast(self.iterations + 1, value.dtype)
        betas = self.beta_1, self.beta_2
        corrections = [1 - ops.power(ops.cast(beta, value.dtype), step) for beta in betas]
        rate = learning_rate * ops.sqrt(corrections[1]) / corrections[0]
        m, v = slots
        m = m + (gradient - m) * (1 - self.beta_1)
        v = v + (ops.square(gradient) - v) * (1 - self.beta_2)
        return value - m * rate / (ops.sqrt(v) + self.epsilon), (m, v)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }
