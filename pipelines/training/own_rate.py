"""A learning rate of its own for a part of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras


class OwnRate(NamedTuple):
    """Variables with a learning rate of their own."""

    variables: Sequence[keras.Variable]
    learning_rate: float


def with_own_rate(kind: Any, own: Sequence[keras.Variable], ratio: float) -> Any:
    """Returns an optimizer's class in which the steps of some variables are `ratio` times as long.

    `learning_rate(variable) = ratio * learning_rate`, also of weight decay; so every schedule keeps
    the ratio. State and name are those of `kind`.

    Args:
        kind: The class of an optimizer of Keras.
        own: The variables.
        ratio: The factor.
    """
    ids = frozenset(map(id, own))

    class Optimizer(kind):
        weight_decay: Any

        def build(self, variables: Sequence[keras.Variable]) -> None:
            super().build(variables)
            self._ratios = tuple(ratio if id(v) in ids else 1.0 for v in variables)

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            super().update_step(gradient, variable, learning_rate * self._ratio(variable))

        def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
            decay = self.weight_decay
            if decay is None:
                return
            for each in {1.0, ratio}:
                self.weight_decay = decay * each
                super()._apply_weight_decay([v for v in variables if self._ratio(v) == each])
            self.weight_decay = decay

        def _ratio(self, variable: Any) -> float:
            return self._ratios[self._get_variable_index(variable)]

    Optimizer.__name__ = kind.__name__
    return Optimizer
