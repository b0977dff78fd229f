"""Embedding tables that each epoch learns anew."""

from __future__ import annotations

import keras
import numpy as np

from pipelines.training.training_state import Saver, table_of


class FreshTables:
    """Puts the tables, and their state in the optimizer, back to their values at the start.

    From the second epoch on, a table knows the labels of the rows that it is looked up for, the
    more so the rarer an id is, and the tower learns to trust what no new row confirms. With fresh
    tables an id's vector has only seen rows before this one, in each epoch, as it will in serving;
    the tower goes on learning.

    Source: Liu et al., "Multi-Epoch Learning for Deep Click-Through Rate Prediction Models", 2023,
    arXiv 2305.19531.

    Args:
        saver: Has the variables, with the values of the start: initial ones, or those of the run
            that the training starts from.
    """

    def __init__(self, saver: Saver) -> None:
        self._start: list[tuple[keras.Variable, np.ndarray | None]] = []
        for _, variable in saver.variables():
            if table_of(variable):
                value = keras.ops.convert_to_numpy(variable)
                self._start.append((variable, value.copy() if value.any() else None))

    def restore(self) -> None:
        """Restores the values."""
        for variable, value in self._start:
            variable.assign(np.zeros(variable.shape) if value is None else value)
