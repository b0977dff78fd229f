"""The labelled rows of one task with their scores: what every metric is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.at_k import MeansAtK
from pipelines.metrics.cluster_sums import ClusterSums
from pipelines.metrics.probability import calibration_curve_of
from pipelines.metrics.ranked import LabelCounts, Ranked
from pipelines.metrics.score_order import ByGroup, auc_by_group
from pipelines.metrics.smooth import POINTS, SmoothCalibration, smooth_of

_PART = 2**21  # rows whose temporary arrays take some 200 MB
Rows = slice | NDArray[np.intp]


class ScoredRows:
    """Labelled rows of one task. What several metrics need is computed once, a part at a time.

    Args:
        labels: 0 or 1 of each row, shape (rows,).
        scores: The score of each row, shape (rows,).
        clusters: Number of the rows that each row depends on, shape (rows,). Defaults to each row
            alone.
        groups: Number of each row's group of GAUC, -1 for none; None: there is no GAUC.
        requests: Number of each row's request; None: there are no metrics of requests.
        at: The values of k of the metrics of requests.
        probabilities: Whether the scores are probabilities.
        cluster_count: Number of clusters, if other rows have more. Defaults to those of the rows.
    """

    def __init__(
        self,
        labels: NDArray[Any],
        scores: NDArray[Any],
        clusters: NDArray[np.integer] | None = None,
        groups: NDArray[np.intp] | None = None,
        requests: NDArray[Any] | None = None,
        at: Sequence[int] = (10,),
        probabilities: bool = True,
        cluster_count: int = 0,
    ) -> None:
        self.labels, self.scores = labels, scores
        self.clusters = np.arange(labels.size) if clusters is None else clusters
        self.groups, self.requests = groups, requests
        self.probabilities = probabilities
        self.cluster_count = max(cluster_count, int(self.clusters.max(initial=-1)) + 1)
        self._at = at

    @cached_property
    def counts(self) -> LabelCounts:
        """The labels of each distinct score."""
        return LabelCounts.of(self.labels, self.scores)

    @cached_property
    def by_group(self) -> ByGroup | None:
        """The AUC of each group; None without groups."""
        if self.groups is None:
            return None
        parts = [
            auc_by_group(self._ranked(rows), self.groups[rows])
            for rows in whole_groups(self.groups, _PART)
        ]
        return ByGroup(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    @cached_property
    def top(self) -> MeansAtK:
        """The metrics of requests."""
        means = MeansAtK(self._at)
        if self.requests is not None:
            for rows in whole_groups(self.requests, _PART):
                means.add(self.labels[rows], self.scores[rows], self.requests[rows])
        return means

    @cached_property
    def sums(self) -> ClusterSums:
        """The sums of each cluster, from which intervals follow."""

        def of(rows: slice) -> ClusterSums:
            scores = self.scores[rows] if self.probabilities else None
            clusters = self.clusters[rows]
            return ClusterSums.of(self._ranked(rows), clusters, self.cluster_count, scores)

        return reduce(ClusterSums.merged, map(of, _slices(self.labels.size)))

    @cached_property
    def smooth(self) -> SmoothCalibration:
        """The smooth calibration curve."""
        return smooth_of(calibration_curve_of(self.counts, POINTS))

    def _ranked(self, rows: Rows) -> Ranked:
        return Ranked.of(self.labels[rows], self.scores[rows], self.counts)


def whole_groups(groups: NDArray[Any], most: int) -> Iterator[Rows]:
    """Parts of the rows, each with all rows of its groups, in the order of the groups' numbers.

    A part has `most` rows or a few more: at most those of one group.
    """
    if groups.size <= most:
        yield slice(None)
        return
    rising = bool((groups[1:] >= groups[:-1]).all())
    ends = groups if rising else np.sort(groups)
    bounds = [*np.unique(ends[most::most]), None]
    low = None
    for high in bounds:
        if rising:
            start = 0 if low is None else int(np.searchsorted(groups, low))
            end = groups.size if high is None else int(np.searchsorted(groups, high))
            yield slice(start, end)
        else:
            inside = np.ones(groups.size, bool) if high is None else groups < high
            if low is not None:
                inside &= groups >= low
            yield np.flatnonzero(inside)
        low = high


def _slices(rows: int) -> Iterator[slice]:
    return (slice(start, start + _PART) for start in range(0, max(rows, 1), _PART))
