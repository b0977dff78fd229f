"""Logistic regression on buckets of numbers and on frequent ids."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pipelines.baselines.columns import Codes, Columns, Ids, Numbers, flags
from pipelines.metrics.probability import logloss

BUCKETS = 20
LEAST_ROWS, MOST_IDS = 10, 10_000  # of an id with a weight of its own
_STRENGTHS = (0.03, 0.3)  # `C` of scikit-learn: the larger, the weaker the penalty


class LogisticRegression:
    """Logistic regression, one weight for each bucket of a number and each frequent id.

    Args:
        train: The rows that the buckets are of equally many of, and whose ids are counted.
    """

    def __init__(self, train: Columns) -> None:
        self._flags = flags(train)
        self._edges = {name: _edges(values) for name, values in train.numbers.items()}
        self._codes = {n: Codes.of(ids, LEAST_ROWS, MOST_IDS) for n, ids in train.ids.items()}

    def encode(self, columns: Columns) -> sparse.csr_matrix:
        """A one for the bucket or the code of each column, `(rows, buckets and codes)`."""
        places: list[Ids] = []
        width = 0
        for name, edges in self._edges.items():
            places.append(width + _buckets(columns.numbers[name], edges))
            width += len(edges) + 2
        for name, codes in self._codes.items():
            places.append(width + codes(columns.ids[name]))
            width += len(codes)
        for flag in self._flags(columns):
            places.append(width + flag.astype("int32"))
            width += 2
        indices = np.stack(places, axis=1)
        rows, count = indices.shape
        starts = np.arange(rows + 1) * count
        ones = np.ones(indices.size, "float32")
        return sparse.csr_matrix((ones, indices.ravel(), starts), shape=(rows, width))

    def fit(
        self,
        train: tuple[sparse.csr_matrix, NDArray[Any]],
        valid: tuple[sparse.csr_matrix, NDArray[Any]],
        seed: int,
    ) -> Callable[[sparse.csr_matrix], NDArray[np.float64]]:
        """Returns the function to probabilities, with the penalty that is best on other rows.

        Args:
            train: Encoded rows and their labels.
            valid: Rows that choose the penalty.
            seed: Not used: the result is the same for each seed.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression as Regression

        fitted: list[tuple[float, Any]] = []
        for strength in _STRENGTHS:
            model = Regression(C=strength, max_iter=60, tol=1e-3)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
                model.fit(*train)
            loss = logloss(valid[1], model.predict_proba(valid[0])[:, 1])
            fitted.append((loss, model))
        best = min(fitted, key=lambda pair: pair[0])[1]
        return lambda rows: best.predict_proba(rows)[:, 1]


def _edges(values: Numbers) -> Numbers:
    """Ends of buckets with equally many of the known values."""
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros(0, "float32")
    ends = np.quantile(known, np.arange(1, BUCKETS) / BUCKETS, method="lower")
    return np.unique(ends).astype("float32")


def _buckets(values: Numbers, edges: Numbers) -> Ids:
    """The number of the bucket of each value; missing ones have the first."""
    places = 1 + np.searchsorted(edges, values)
    return np.where(np.isnan(values), 0, places).astype("int32")
