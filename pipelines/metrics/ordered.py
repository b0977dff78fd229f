"""One column of scores in order, a part of the rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.cluster_sums import ClusterSums
from pipelines.metrics.ranked import LabelCounts, Ranked
from pipelines.metrics.ranking import ByGroup, auc_by_group
from pipelines.metrics.top_k import MeansAtK

_ROWS = 2**21  # of a part: their temporary arrays take some 200 MB
Rows = slice | NDArray[np.intp]


class Ordered(NamedTuple):
    """What the order of the scores tells: over all rows, within groups, within requests."""

    counts: LabelCounts
    by_group: ByGroup | None
    top: MeansAtK

    @classmethod
    def of(
        cls,
        labels: NDArray[np.bool_],
        scores: NDArray[Any],
        groups: NDArray[np.intp] | None,
        requests: NDArray[Any] | None,
        at: Sequence[int],
    ) -> Ordered:
        """Counts, with the groups' and requests' rows a part at a time."""
        counts, top = LabelCounts.of(labels, scores), MeansAtK(at)
        by_group = None
        if groups is not None:
            found = [
                auc_by_group(Ranked.of(labels[rows], scores[rows], counts), groups[rows])
                for rows in whole_groups(groups, _ROWS)
            ]
            by_group = ByGroup(*(np.concatenate(each) for each in zip(*found, strict=True)))
        if requests is not None:
            for rows in whole_groups(requests, _ROWS):
                top.add(labels[rows], scores[rows], requests[rows])
        return cls(counts, by_group, top)


def cluster_sums(
    labels: NDArray[np.bool_],
    scores: NDArray[Any],
    clusters: NDArray[np.intp],
    counts: LabelCounts,
    probabilities: bool,
) -> ClusterSums:
    """The sums of all clusters, over a part of the rows at a time."""
    count = int(clusters.max(initial=-1)) + 1

    def of(rows: slice) -> ClusterSums:
        ranked = Ranked.of(labels[rows], scores[rows], counts)
        return ClusterSums.of(
            ranked, clusters[rows], count, scores[rows] if probabilities else None
        )

    return reduce(ClusterSums.merged, map(of, _slices(labels.size)))


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
    return (slice(start, start + _ROWS) for start in range(0, max(rows, 1), _ROWS))
