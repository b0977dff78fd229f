"""Gradient-boosted trees: LightGBM's where it is installed, else scikit-learn's."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.columns import Codes, Columns, Numbers, flags

LEAST_ROWS, MOST_IDS = 50, 250  # of an id with a code of its own; the others share one
_TREES, _PATIENCE, _RATE, _LEAVES, _LEAF_ROWS = 500, 30, 0.1, 31, 50
# OpenMP's threads wait for each other after each step: on cores that others use, minutes.
_THREADS = max(1, (os.cpu_count() or 1) // 2)
_SCORE = Callable[[Numbers], NDArray[np.float64]]


class Trees:
    """Gradient-boosted trees on numbers and frequent ids.

    Args:
        train: The rows whose ids are counted.
    """

    def __init__(self, train: Columns) -> None:
        self._flags = flags(train)
        self._codes = {n: Codes.of(ids, LEAST_ROWS, MOST_IDS) for n, ids in train.ids.items()}

    def encode(self, columns: Columns) -> Numbers:
        """The codes of ids, the numbers and the flags of bags, `(rows, columns)`."""
        codes = (code(columns.ids[name]) for name, code in self._codes.items())
        every = itertools.chain(codes, columns.numbers.values(), self._flags(columns))
        return np.stack([column.astype("float32") for column in every], axis=1)

    def fit(
        self,
        train: tuple[Numbers, NDArray[Any]],
        valid: tuple[Numbers, NDArray[Any]],
        seed: int,
    ) -> _SCORE:
        """Returns the function to probabilities, of as many trees as are best on other rows.

        Args:
            train: Encoded rows and their labels.
            valid: Rows that stop the training.
            seed: Seed of the trees.
        """
        fit = _lightgbm if importlib.util.find_spec("lightgbm") else _scikit_learn
        return fit(train, valid, list(range(len(self._codes))), seed)


def _lightgbm(train: Any, valid: Any, ids: list[int], seed: int) -> _SCORE:
    import lightgbm

    data, stop = (
        lightgbm.Dataset(matrix, labels, categorical_feature=ids, params={"verbosity": -1})
        for matrix, labels in (train, valid)
    )
    options = {"objective": "binary", "verbosity": -1, "seed": seed, "deterministic": True}
    options |= {"learning_rate": _RATE, "num_leaves": _LEAVES, "min_data_in_leaf": _LEAF_ROWS}
    options |= {"num_threads": _THREADS, "force_col_wise": True}  # else it measures the faster way
    stopping = lightgbm.early_stopping(_PATIENCE, verbose=False)
    model = lightgbm.train(options, data, _TREES, [stop], callbacks=[stopping])
    return lambda rows: model.predict(rows)


def _scikit_learn(train: Any, valid: Any, ids: list[int], seed: int) -> _SCORE:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingClassifier(
        learning_rate=_RATE,
        max_iter=_TREES,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=_LEAF_ROWS,
        categorical_features=ids,
        early_stopping=True,
        n_iter_no_change=_PATIENCE,
        random_state=seed,
    )
    with threadpool_limits(_THREADS, user_api="openmp"):
        model.fit(*train, X_val=valid[0], y_val=valid[1])
    return lambda rows: model.predict_proba(rows)[:, 1]
