"""Adagrad for embedding tables, with an accumulator per number or per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.optimizers.row_optimizer import RowOptimizer, column, other_axes
from recsys_attn.tensors import Config, Tensor


class _Adagrad(RowOptimizer):
    """The common part: one accumulator, its initial value, and epsilon."""

    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float, epsilon: float, **options: Any
    ) -> None:
        require_number("initial_accumulator_value", initial_accumulator_value, least=0)
        require_number("epsilon", epsilon, least=0)
        super().__init__(learning_rate, **options)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "initial_accumulator_value": self.initial_accumulator_value,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class LazyAdagrad(_Adagrad):
    """Adagrad with a cost per step that does not depend on the size of the tables.

    For touched rows, with the gradient g:

    `a += g^2`, `row -= learning_rate g / sqrt(a + epsilon)`

    Rows without gradient do not change in Adagrad either, so the result is that of
    `keras.optimizers.Adagrad`.

    It keeps one accumulator per number of a table.

    Args:
        learning_rate: A float or a `LearningRateSchedule`.
        initial_accumulator_value: Initial value of a.
        epsilon: Small number that keeps the division finite.
        options: Arguments of `RowOptimizer`.

    Source:
        Duchi, Hazan and Singer, 2011 (Journal of Machine Learning Research 12).

    Example:

    >>> from recsys_attn.optimizers import LazyAdagrad
    >>> LazyAdagrad(0.05, l2=1e-4).l2
    0.0001
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, epsilon, **options)

    def make_slots(self, variable: keras.Variable, *, table: bool) -> list[keras.Variable]:
        start = keras.initializers.Constant(self.initial_accumulator_value)
        return [self.add_variable_from_reference(variable, "accumulator", start)]

    def formula(
        self, gradient: Tensor, value: Tensor, slots: Sequence[Tensor], learning_rate: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        total = slots[0] + ops.square(gradient)
        return value - learning_rate * gradient / ops.sqrt(total + self.epsilon), (total,)


@keras.saving.register_keras_serializable(package="recsys_attn")
class RowWiseAdagrad(_Adagrad):
    """Adagrad with one accumulator per row: a sixteenth of the state for a table of width 16.

    For touched rows, with the gradient g:

    `a += mean(g^2)`, `row -= learning_rate g / (sqrt(a) + epsilon)`

    It equals `EXACT_ROWWISE_ADAGRAD` of FBGEMM and TorchRec. A variable that is not a table has an
    accumulator per number, and the same formula without the mean.

    Args:
        learning_rate: A float or a `LearningRateSchedule`.
        initial_accumulator_value: Initial value of a.
        epsilon: Small number that keeps the division finite.
        options: Arguments of `RowOptimizer`.

    Source:
        Mudigere et al., 2022 (arXiv 2104.05158), section 4.1.4.

    Example:

    >>> import keras
    >>> from recsys_attn.optimizers import RowWiseAdagrad
    >>> model = keras.Sequential([keras.Input(()), keras.layers.Embedding(7, 16)])
    >>> optimizer = RowWiseAdagrad(0.05)
    >>> optimizer.build(model.trainable_variables)
    >>> tuple(optimizer.variables[-1].shape)
    (7, 1)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        initial_accumulator_value: float = 0.0,
        epsilon: float = 1e-8,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, epsilon, **options)

    def make_slots(self, variable: keras.Variable, *, table: bool) -> list[keras.Variable]:
        shape = column(variable) if table else tuple(variable.shape)
        return [self.add_slot(variable, "accumulator", shape, self.initial_accumulator_value)]

    def formula(
        self, gradient: Tensor, value: Tensor, slots: Sequence[Tensor], learning_rate: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        square = ops.square(gradient)
        if slots[0].shape[1:] != gradient.shape[1:]:
            square = ops.mean(square, axis=other_axes(gradient), keepdims=True)
        total = slots[0] + square
        return value - learning_rate * gradient / (ops.sqrt(total) + self.epsilon), (total,)
