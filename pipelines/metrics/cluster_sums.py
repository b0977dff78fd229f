"""Sums over the rows of each cluster: integers, so that parts of the rows add up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.metric_inputs import Floats
from pipelines.metrics.probability import row_losses
from pipelines.metrics.ranked import Integers, LabelCounts, Ranked

_UNIT = 2.0**-32  # of sums of losses and scores: an error of 1e-10 in a row
Influence = tuple[float, Floats]  # a metric, and how far each cluster moves it


@dataclass(frozen=True)
class ClusterSums:
    """The sums over the rows of each cluster, from which intervals follow.

    Attributes:
        positive, negative: Numbers of rows, shape (clusters,).
        won: Over the positives, twice the negatives of all rows below and once those equal.
        lost: Over the negatives, twice the positives of all rows above and once those equal.
        losses, scores: Sums of logloss and of scores, in units of 2^-32; empty if the scores are
            no probabilities.
    """

    positive: Integers
    negative: Integers
    won: Integers
    lost: Integers
    losses: Integers
    scores: Integers

    @classmethod
    def of(
        cls,
        ranked: Ranked,
        clusters: NDArray[np.integer],
        count: int,
        probabilities: NDArray[Any] | None = None,
    ) -> ClusterSums:
        """Sums some rows.

        Args:
            ranked: The rows, with the counts of all rows.
            clusters: Number of each row's cluster, below `count`.
            count: Number of clusters.
            probabilities: The scores, if they are probabilities.
        """
        ones = ranked.labels == 1
        in_positive, in_negative = clusters[ones], clusters[~ones]
        losses = scores = np.zeros(0, np.int64)
        if probabilities is not None:
            losses = _summed(clusters, _fixed(row_losses(ones, probabilities)), count)
            scores = _summed(clusters, _fixed(probabilities.astype(np.float64)), count)
        return cls(
            positive=np.bincount(in_positive, minlength=count).astype(np.int64),
            negative=np.bincount(in_negative, minlength=count).astype(np.int64),
            won=_summed(in_positive, ranked.counts.below[ranked.places[ones]], count),
            lost=_summed(in_negative, ranked.counts.above[ranked.places[~ones]], count),
            losses=losses,
            scores=scores,
        )

    def merged(self, other: ClusterSums) -> ClusterSums:
        """The sums over the rows of both, whose clusters have the same numbers."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return ClusterSums(*(first + second for first, second in pairs))

    @property
    def rows(self) -> Integers:
        """Rows of each cluster."""
        return self.positive + self.negative

    def auc(self, counts: LabelCounts) -> Influence:
        """The AUC and `psi_c` of `auc_interval`."""
        if not counts.both_classes:
            return counts.auc, np.zeros(self.rows.size)
        positives, negatives = counts.totals
        share = 2 * positives * negatives
        moved = (self.won + self.lost) / share
        moved -= counts.auc * (self.positive / positives + self.negative / negatives)
        return counts.auc, moved

    def logloss(self) -> Influence:
        """The logloss and how far each cluster moves it."""
        return self._ratio(self.losses * _UNIT, self.rows)

    def calibration(self) -> Influence:
        """The calibration and how far each cluster moves it."""
        return self._ratio(self.scores * _UNIT, self.positive)

    def rate(self) -> Influence:
        """The share of positives and how far each cluster moves it."""
        return self._ratio(self.positive, self.rows)

    def _ratio(self, values: NDArray[Any], others: Integers) -> Influence:
        total = int(others.sum())
        if not total:
            return np.nan, np.zeros(others.size)
        ratio = float(values.sum()) / total
        return ratio, (values - ratio * others) / total


def _fixed(values: Floats) -> Integers:
    return np.rint(values / _UNIT).astype(np.int64)


def _summed(clusters: NDArray[np.integer], values: Integers, count: int) -> Integers:
    """Sums of the values of each cluster."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, clusters, values)
    return sums
