"""Gates of a canary's metrics: its rows against those that the stable version served."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics import METRICS, Metric, ScoredRows, UndefinedMetricWarning
from pipelines.metrics.cluster_sums import Influence
from pipelines.metrics.intervals import interval_of, separated
from pipelines.metrics.metric_inputs import group_codes
from pipelines.metrics.segment_metrics import FEW_CLUSTERS, FEW_OF_A_CLASS, FEW_ROWS
from pipelines.online.canary_gate import CanaryGate, result_of, z_of
from pipelines.report.gate_words import FAILED, UNDECIDED
from pipelines.report.numbers import decimal


@dataclass(frozen=True)
class TwoVersions:
    """The rows of one task that two versions served: different rows of the same users.

    Attributes:
        labels: 0, 1, or NaN for unknown, shape (rows,).
        scores: The score of each row, shape (rows,).
        groups: The group of each row, shape (rows,), whose rows depend on each other.
        is_canary: The rows of the canary, shape (rows,).
        probabilities: Whether the scores are probabilities.
    """

    labels: NDArray[np.floating]
    scores: NDArray[np.floating]
    groups: NDArray[np.int64]
    is_canary: NDArray[np.bool_]
    probabilities: bool = True

    @cached_property
    def stable(self) -> ScoredRows:
        """The labelled rows of the stable version."""
        return self._side(~self.is_canary)

    @cached_property
    def canary(self) -> ScoredRows:
        """The labelled rows of the canary."""
        return self._side(self.is_canary)

    @cached_property
    def are_few(self) -> bool:
        """Whether a version has fewer rows than an interval needs."""
        return any(
            side.labels.size < FEW_ROWS
            or min(side.counts.totals) < FEW_OF_A_CLASS
            or np.unique(side.clusters).size < FEW_CLUSTERS
            for side in (self.stable, self.canary)
        )

    @cached_property
    def _codes(self) -> NDArray[np.intp]:
        return group_codes(self.groups, self.labels.astype(np.float64))

    @cached_property
    def _clusters(self) -> NDArray[np.intp]:
        return separated(self._codes)

    def _side(self, inside: NDArray[np.bool_]) -> ScoredRows:
        rows = inside & ~np.isnan(self.labels)
        return ScoredRows(
            self.labels[rows] == 1,
            self.scores[rows],
            self._clusters[rows],
            self._codes[rows],
            probabilities=self.probabilities,
            cluster_count=int(self._clusters.max(initial=-1)) + 1,
        )


def metrics_of(probabilities: bool) -> list[Metric]:
    """The gated metrics of a task."""
    return [m for m in METRICS.where("summary") if probabilities or not m.needs_probabilities]


def metric_gates(task: str, rows: TwoVersions, level: float) -> Iterator[CanaryGate]:
    """Decides the gates of a task: its metrics are not worse by more than chance.

    With how far each user moves the metric of each version (`psi_c`, 0 of a version that served
    the user nothing) and G users:

    `error^2 = G / (G - 1) * sum_c (psi_c of the canary - psi_c of the stable version)^2`

    A calibration is worse if it is further from 1. As
    `|canary - 1| - |stable - 1| <= |canary - stable|`, its test has two sides.

    Args:
        task: The name of the task.
        rows: The rows of both versions.
        level: The probability that chance alone makes one gate of an equal canary fail.
    """
    for metric in metrics_of(rows.probabilities):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # not decided
            stable, canary = (_influence(metric, side) for side in (rows.stable, rows.canary))
        interval = interval_of(canary[0] - stable[0], canary[1] - stable[1])
        is_nearest = metric.better == "one"
        worse = _worse(metric, stable[0], canary[0])
        half = z_of(level / 2 if is_nearest else level) * interval.error
        ends = None if rows.are_few or np.isnan(half) else (worse - half, worse + half)
        values = [None if np.isnan(value) else value for value, _ in (stable, canary)]
        result = result_of(ends)
        words = f"{metric.title} of {task}: {decimal(values[1])} against {decimal(values[0])}"
        if result == UNDECIDED:
            words += ", of too few rows"
        elif result == FAILED and ends is not None:
            further = "further from 1" if is_nearest else "worse"
            words += f", {further} by {worse:.4f} ({ends[0]:.4f} to {ends[1]:.4f})"
        numbers = (values[1], values[0], None if np.isnan(worse) else worse, ends, 0.0, level)
        yield CanaryGate(metric.name, task, *numbers, result, f"{words}.")


def _worse(metric: Metric, stable: float, canary: float) -> float:
    """By how much the canary is worse."""
    if metric.better == "one":
        return abs(canary - 1) - abs(stable - 1)
    return stable - canary if metric.better == "higher" else canary - stable


def _influence(metric: Metric, rows: ScoredRows) -> Influence:
    """A metric and how far each cluster of both versions moves it."""
    if metric.influence is None:
        return np.nan, np.zeros(rows.cluster_count)
    value, moved = metric.influence(rows)
    if metric.unit != "groups" or rows.groups is None:
        return value, moved
    # GAUC is moved by the groups alone that hold both classes, in the order of their numbers.
    grouped = rows.groups >= 0
    codes, labels = rows.groups[grouped], rows.labels[grouped]
    of_class = [np.bincount(codes[labels == one], minlength=rows.cluster_count) for one in (0, 1)]
    spread = np.zeros(rows.cluster_count)
    spread[(of_class[0] > 0) & (of_class[1] > 0)] = moved
    return value, spread
