"""AUC, GAUC and logloss with intervals that draw whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

DRAWS = 200


@dataclass(frozen=True)
class Predictions:
    """One model's scores of labelled rows.

    Attributes:
        label: 0 or 1.
        score: Probability of 1.
        group: Number of the row's group, such as the user.
        rows: Numbers of these rows in the split.
    """

    label: np.ndarray
    score: np.ndarray
    group: np.ndarray
    rows: np.ndarray

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.score, kind="stable")
        ties = np.cumsum(np.r_[0, np.diff(self.score[order]) > 0])
        return order, ties

    def auc(self, weight: np.ndarray) -> float:
        """AUC of rows with weights; equal scores count as half."""
        order, ties = self._order
        w, y = weight[order], self.label[order]
        positive, negative = np.bincount(ties, w * y), np.bincount(ties, w * (1 - y))
        below = np.cumsum(negative) - negative / 2
        return float(positive @ below / (positive.sum() * negative.sum()))

    def logloss(self, weight: np.ndarray) -> float:
        """Mean cross-entropy of rows with weights."""
        p = np.clip(self.score, 1e-7, 1 - 1e-7)
        losses = -np.where(self.label == 1, np.log(p), np.log1p(-p))
        return float(losses @ weight / weight.sum())

    @property
    def calibration(self) -> float:
        """Predicted over observed positives."""
        return float(self.score.sum() / self.label.sum())


def draws(group: np.ndarray) -> np.ndarray:
    """Weights of the rows for each draw of as many groups as there are, with replacement."""
    rng, count = np.random.default_rng(0), int(group.max()) + 1
    return np.stack([np.bincount(rng.integers(0, count, count), minlength=count)[group]
                     for _ in range(DRAWS)]).astype("float32")  # fmt: skip


def interval(values: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of the draws."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
