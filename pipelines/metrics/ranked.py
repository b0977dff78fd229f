"""Rows sorted by score once, for all metrics that see their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.checks import ONE_CLASS, Floats, undefined

Numbers = NDArray[np.intp]


class Within(NamedTuple):
    """Rows sorted by group, then by score."""

    labels: NDArray[np.bool_]  # (rows,)
    starts: Numbers  # where a run of equal scores in one group begins
    groups: Numbers  # the group of each run


@dataclass(frozen=True)
class Ranked:
    """Rows sorted by rising score, in runs of equal scores.

    Attributes:
        order: Number of each row, shape (rows,).
        labels, scores: Of the sorted rows, shape (rows,).
        starts: Where each run begins, shape (runs,).
        positive, negative: Rows of each label in each run, shape (runs,).
    """

    order: Numbers
    labels: Floats
    scores: NDArray[Any]
    starts: Numbers
    positive: Floats
    negative: Floats

    @classmethod
    def of(cls, labels: Floats, scores: NDArray[Any]) -> Ranked:
        """Sorts rows whose labels are 0 or 1 and whose scores are not nan."""
        order = np.argsort(scores)
        labels, scores = labels[order], scores[order]
        starts = run_starts(scores)
        return cls(order, labels, scores, starts, *count_labels(labels, starts))

    @property
    def both_classes(self) -> bool:
        return bool(self.positive.any() and self.negative.any())

    @property
    def auc(self) -> float:
        """The AUC; nan with a warning unless both classes are present."""
        if not self.both_classes:
            return undefined("AUC", ONE_CLASS)
        below = np.cumsum(self.negative) - self.negative / 2
        return float(self.positive @ below / (self.positive.sum() * self.negative.sum()))

    def runs(self) -> Numbers:
        """The number of the run of each sorted row."""
        return np.repeat(np.arange(self.starts.size), np.diff(self.starts, append=self.order.size))

    def within(self, groups: Numbers) -> Within:
        """The rows of each group by rising score.

        One number holds a row's group, run and label, so that numbers are sorted and no row moves.

        Args:
            groups: Number of each row's group, before the rows were sorted; rows below 0 are left
                out.
        """
        numbers = groups[self.order]
        keys = (numbers * self.starts.size + self.runs()) * 2 + self.labels.astype(np.intp)
        keys = np.sort(keys[numbers >= 0])
        labels = (keys & 1).astype(bool)
        keys >>= 1
        starts = run_starts(keys)
        return Within(labels, starts, keys[starts] // max(self.starts.size, 1))


def run_starts(keys: NDArray[Any]) -> Numbers:
    """Where runs of equal keys begin."""
    new = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.flatnonzero(new)


def count_labels(labels: NDArray[Any], starts: Numbers) -> tuple[Floats, Floats]:
    """Numbers of positives and of negatives in each run."""
    positive = run_sums(labels.astype(np.float64), starts)
    return positive, np.diff(starts, append=labels.size) - positive


def run_sums(values: Floats, starts: Numbers) -> Floats:
    """Sums of the values of each run."""
    return np.add.reduceat(values, starts) if starts.size else np.zeros(0)
