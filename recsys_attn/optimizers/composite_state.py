"""Saved state of optimizers that contain other optimizers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any


class HoldsOptimizers:
    """Saves only the variables of the outer optimizer; Keras saves the inner optimizers itself.

    Otherwise Keras would save all variables twice, and `set_weights` would omit those of the inner
    optimizers.
    """

    def save_own_variables(self: Any, store: Any) -> None:
        for index, variable in enumerate(self._variables):
            store[str(index)] = variable.numpy()

    def load_own_variables(self: Any, store: Any) -> None:
        if len(store.keys()) != len(self._variables):
            warnings.warn(
                f"{self.name} starts anew: it has {len(self._variables)} variables, and "
                f"{len(store.keys())} were saved, by another optimizer.",
                stacklevel=2,
            )
            return
        for index, variable in enumerate(self._variables):
            variable.assign(store[str(index)])

    def set_weights(self: Any, weights: Sequence[Any]) -> None:
        for variable, weight in zip(self.variables, weights, strict=True):
            variable.assign(weight)
