"""Metrics of a segment of the rows, and their differences to all other rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.intervals import Influence, cluster_codes, difference, interval_of
from pipelines.metrics.metric import METRICS
from pipelines.metrics.metric_inputs import UndefinedMetricWarning, check_pairs, check_shape
from pipelines.metrics.scored_rows import ScoredRows
from pipelines.metrics.task import calibration_off, ends

FEW_ROWS, FEW_OF_A_CLASS, FEW_CLUSTERS = 200, 20, 30  # fewer are marked


class SegmentMetrics:
    """Metrics of segments of one task's rows.

    With the influences `psi_c` of `auc_interval` for the rows of a segment and for all others,
    both with the clusters of all rows, and G clusters:

    `error^2 = G / (G - 1) * sum_c (psi_c of the segment - psi_c of the others)^2`

    is the squared error of the difference of the two AUCs. Users with rows on both sides make it
    smaller, or larger, than that of independent rows. The other difference is of the mean of
    `row_excess`: the logloss beyond what the probabilities themselves expect, as logloss itself
    differs with the share of positives.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A number per row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,), as for `auc_interval`.
        probabilities: Whether the scores are probabilities; if not, there is no logloss and no
            calibration.

    Raises:
        ValueError: As for `auc`.

    Example:
        >>> labels, users = [0, 1, 0, 1, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3, 4, 4]
        >>> scores = [0.1, 0.9, 0.2, 0.8, 0.6, 0.4, 0.7, 0.8]
        >>> found = SegmentMetrics(labels, scores, users).of(np.arange(8) < 4)
        >>> found["rows"], found["auc"], found["auc_difference"], found["few"]
        (4, 1.0, 0.5, True)
    """

    def __init__(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        clusters: ArrayLike,
        probabilities: bool = True,
    ) -> None:
        y, z = check_pairs(labels, scores)
        codes = cluster_codes(clusters, y)
        self._labels, self._scores, self._clusters = y, z, codes
        self._count = int(codes.max(initial=-1)) + 1
        self._probabilities = probabilities

    def of(self, inside: NDArray[np.bool_]) -> dict[str, Any]:
        """The metrics of the rows where `inside`, of shape (rows,), is true.

        Returns:
            Counts, `few`, and metrics by name, None if they are not defined; `auc_difference` and
            `excess_logloss_difference` to all other rows; and `intervals`, the 95 % ones of all of
            them. `few` marks intervals that do not hold: fewer than 200 rows, 20 of a class or 30
            clusters.
        """
        check_shape("inside", inside, self._labels)
        y = self._labels[inside]
        positives = int(np.count_nonzero(y))
        present = np.bincount(self._clusters[inside], minlength=self._count) > 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
            rows = self._rows(inside)
            within, outside = self._influences(rows), self._influences(self._rows(~inside))
            off = calibration_off(rows)
        values = {name: value for name, (value, _) in within.items()}
        intervals: dict[str, Any] = {
            name: ends(interval_of(value, moved[present], METRICS[name].bounds))
            for name, (value, moved) in within.items()
        }
        for metric in METRICS.where("segments", "rest"):
            name = f"{metric.name}_difference"
            to_rest = difference(within[metric.name], outside[metric.name])
            values[name], intervals[name] = to_rest.value, ends(to_rest)
        clusters = int(np.count_nonzero(present))
        return {
            "rows": y.size,
            "positives": positives,
            "clusters": clusters,
            "few": y.size < FEW_ROWS
            or min(positives, y.size - positives) < FEW_OF_A_CLASS
            or clusters < FEW_CLUSTERS,
            **{name: None if np.isnan(value) else value for name, value in values.items()},
            "calibration_off": off,
            "intervals": intervals,
        }

    def _rows(self, inside: NDArray[np.bool_]) -> ScoredRows:
        return ScoredRows(
            self._labels[inside],
            self._scores[inside],
            self._clusters[inside],
            probabilities=self._probabilities,
            cluster_count=self._count,
        )

    def _influences(self, rows: ScoredRows) -> dict[str, Influence]:
        nothing: Influence = (np.nan, np.zeros(self._count))
        return {
            metric.name: metric.influence(rows)
            if metric.influence is not None and metric.is_of(rows)
            else nothing
            for metric in METRICS.where("segments")
        }
