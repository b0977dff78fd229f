"""Two models on the same rows: paired differences, and a verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics import METRICS, ScoredRows
from pipelines.metrics.intervals import Difference, Influence, difference, mean_of, separated
from pipelines.metrics.segment_metrics import FEW_CLUSTERS
from pipelines.report.compared_models import Side
from pipelines.report.results import Evaluation, TaskRows

MOVED = 10  # rows that are shown
_COMPARED = [metric.name for metric in METRICS.where("models")]
_WITHIN = [metric.name for metric in METRICS.compared_in_segments]


class TaskComparison:
    """The runs of several sides for one task, each read and sorted once.

    Args:
        task: The task; all sides have it, on the same rows.
        sides: The sides.

    Attributes:
        labels: Of the labelled rows, shape (rows,).
        clusters: Number of each row's group, else request.
        unit: The column of the groups, or `request`.
    """

    def __init__(self, task: str, sides: Sequence[Side]) -> None:
        self.task, self.sides = task, sides
        runs = {name: run for side in sides for name, run in side.runs.items()}
        first = next(iter(runs.values()))
        self._rows: dict[str, TaskRows] = {name: run.task_rows(task) for name, run in runs.items()}
        groups = first.group_codes(task)
        self._groups = groups if "group" in first.columns else None
        self.clusters = separated(groups)
        self.labels = next(iter(self._rows.values())).labels
        self.unit = first.metrics.get("group") or "request"
        self.probabilities = all(_has_probabilities(run, task) for run in runs.values())
        self._first = first

    @property
    def counts(self) -> str:
        """The rows and the groups, in words."""
        return f"{self.labels.size:,} rows in {self._count:,} groups by {self.unit}"

    @cached_property
    def _count(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1

    @cached_property
    def by_run(self) -> dict[str, dict[str, Influence]]:
        """Each metric of each run, and how far each cluster moves it."""
        return {
            name: _influences(
                ScoredRows(
                    self.labels,
                    rows.scores,
                    self.clusters,
                    self._groups,
                    probabilities=self.probabilities,
                )
            )
            for name, rows in self._rows.items()
        }

    def seeds(self, side: Side) -> dict[str, dict[str, Any]]:
        """The spread of each metric between the seeds of a side: mean, s.d., least and most."""
        spreads = {}
        for metric in _COMPARED:
            values = [self.by_run[name][metric][0] for name in side.runs if self._has(name, metric)]
            if len(values) > 1:
                spreads[metric] = {
                    "mean": float(np.mean(values)),
                    "deviation": float(np.std(values, ddof=1)),
                    "values": values,
                }
        return spreads

    def differences(self, ours: Side, theirs: Side) -> dict[str, dict[str, Any]]:
        """Each metric of both sides and its difference, ours less theirs, of the means over seeds.

        The interval is that of the rows: another sample of the groups, and the same models.
        """
        by_metric: dict[str, dict[str, Any]] = {}
        for metric in _COMPARED:
            runs = [*ours.runs, *theirs.runs]
            if not all(self._has(name, metric) for name in runs):
                continue
            pair = [mean_of([self.by_run[n][metric] for n in s.runs]) for s in (ours, theirs)]
            by_metric[metric] = {
                "ours": pair[0][0],
                "theirs": pair[1][0],
                **_of(difference(*pair)),
                "relative": None,
            }
            chance = METRICS[metric].chance
            if chance is not None and pair[1][0] > chance:
                by_metric[metric]["relative"] = (pair[0][0] - chance) / (pair[1][0] - chance) - 1
        return by_metric

    def verdict(self, ours: Side, theirs: Side) -> str:
        """Which side is better, in words, with sizes and intervals."""
        differences, task = self.differences(ours, theirs), self.task
        if "auc" not in differences:
            return f"{task}: the labels have one class only, so nothing can be compared."
        order, names = differences["auc"], (ours.name, theirs.name)
        side = _side(order)
        if side:
            text = f"{names[side < 0]} ranks better for {task}: AUC {_size(order, side)}"
        else:
            text = f"{names[0]} and {names[1]} cannot be told apart by the order for {task}: AUC "
            text += _size(order, 1)
        text += f" on {self.counts}"
        if "logloss" in differences:
            loss = differences["logloss"]
            better = -_side(loss)
            if better:
                whose = f"the probabilities of {names[better < 0]} are better"
                text += f"; {whose}: logloss {_size(loss, better)}"
            else:
                text += f"; their probabilities cannot be told apart: logloss {_size(loss, 1)}"
        text += "."
        if self._count < FEW_CLUSTERS:
            text += f" With fewer than {FEW_CLUSTERS} groups the intervals are too narrow."
        return " ".join(filter(None, (text, self.spread(ours), self.spread(theirs))))

    def spread(self, side: Side) -> str:
        """The spread of AUC between the seeds of a side, in words; empty with one seed."""
        spread = self.seeds(side).get("auc")
        if spread is None:
            return ""
        least, most = min(spread["values"]), max(spread["values"])
        return (
            f"Between the {len(spread['values'])} seeds of {next(iter(side.runs))} the AUC has a "
            f"standard deviation of {spread['deviation']:.4f} ({least:.4f} to {most:.4f})."
        )

    def segments(self, ours: Side, theirs: Side) -> list[dict[str, Any]]:
        """The differences in each segment that the first runs of both sides have."""
        mine, other = (
            {
                segment["name"]: segment
                for segment in run.metrics["tasks"][self.task].get("segments", ())
            }
            for run in (next(iter(side.runs.values())) for side in (ours, theirs))
        )
        names = [n for n in mine if n in other and mine[n]["rows"] == other[n]["rows"]]
        return [
            {
                **{key: mine[name][key] for key in ("name", "range", "rows", "few")},
                **self.within(name, ours, theirs),
            }
            for name in names
            if name in self._inside
        ]

    @cached_property
    def _inside(self) -> dict[str, NDArray[np.bool_]]:
        return self._first.segment_rows(self.task)

    def within(self, segment: str, ours: Side, theirs: Side) -> dict[str, Any]:
        """The differences of AUC and logloss in a segment; None where undefined."""
        if segment not in self._inside:
            return dict.fromkeys(_WITHIN)
        inside = self._inside[segment]
        runs = [self._rows[next(iter(side.runs))] for side in (ours, theirs)]
        clusters = np.unique(self.clusters[inside], return_inverse=True)[1]
        pair = [
            _influences(
                ScoredRows(
                    self.labels[inside],
                    rows.scores[inside],
                    clusters,
                    probabilities=self.probabilities,
                )
            )
            for rows in runs
        ]
        return {
            metric: _of(difference(pair[0][metric], pair[1][metric])) if metric in pair[0] else None
            for metric in _WITHIN
        }

    def moved(self, ours: Side, theirs: Side) -> list[dict[str, Any]]:
        """The rows whose scores the first runs of both sides differ in most.

        Scores that are no probabilities are compared by their places: the share of rows below.
        """
        scores = [self._rows[next(iter(side.runs))].scores for side in (ours, theirs)]
        if not self.probabilities:
            scores = [_places(values) for values in scores]
        change = scores[0] - scores[1]
        count = min(MOVED, change.size)
        most = np.argpartition(-np.abs(change), count - 1)[:count] if count else np.zeros(0, int)
        most = most[np.argsort(-np.abs(change[most]), kind="stable")]
        where = self._first.places(self.task, most)
        return [
            {
                **where[place],
                "label": int(self.labels[row]),
                "ours": float(scores[0][row]),
                "theirs": float(scores[1][row]),
            }
            for place, row in enumerate(most)
        ]

    def _has(self, run: str, metric: str) -> bool:
        return metric in self.by_run[run]


def _influences(rows: ScoredRows) -> dict[str, Influence]:
    """The compared metrics that rows of both labels define."""
    if not rows.counts.both_classes:
        return {}
    influences = {
        metric.name: metric.influence(rows)
        for metric in METRICS.where("models")
        if metric.influence is not None and metric.is_of(rows)
    }
    return {name: pair for name, pair in influences.items() if not np.isnan(pair[0])}


def _has_probabilities(run: Evaluation, task: str) -> bool:
    return run.metrics["tasks"][task]["logloss"] is not None


def _of(difference: Difference) -> dict[str, Any]:
    return {
        "difference": difference.value,
        "interval": [difference.low, difference.high],
        "p": difference.p,
    }


def _side(difference: Mapping[str, Any]) -> int:
    """1 or -1 if the whole interval is on that side of 0."""
    low, high = difference["interval"]
    return int(low > 0) - int(high < 0)


def _size(difference: Mapping[str, Any], side: int) -> str:
    """The difference with its interval, turned to a side."""
    low, high = sorted(side * end for end in difference["interval"])
    return f"{side * difference['difference']:+.4f} ({low:+.4f} to {high:+.4f})"


def _places(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    ordered = np.sort(scores)
    below, not_above = (np.searchsorted(ordered, scores, side=side) for side in ("left", "right"))
    return (below + not_above) / (2 * scores.size)
