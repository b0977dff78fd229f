"""Intervals of means over seeds, and of their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from pipelines.boards.runs import BoardRun
from pipelines.metrics.influences import mean_of
from pipelines.metrics.intervals import Difference, Influence, Interval, difference, interval_of
from pipelines.report.comparison import TaskComparison
from pipelines.report.sides import Side


@dataclass(frozen=True)
class Influences:
    """How far each user or request moves a metric, for each model and seed.

    Attributes:
        by_seed: By seed and model.
        same_rows: Whether all seeds have the same test rows. If the seed draws the data too, the
            rows of the seeds are independent.
    """

    by_seed: dict[int, dict[str, Influence]]
    same_rows: bool

    @classmethod
    def of(cls, task: str, metric: str, runs: Sequence[BoardRun]) -> Influences:
        """Those of a task; of a metric without an interval there are none."""
        found: dict[int, dict[str, Influence]] = {}
        labels = []
        for seed in dict.fromkeys(run.seed for run in runs):
            sides = [Side({r.model.name: r.evaluation}) for r in runs if r.seed == seed]
            compared = TaskComparison(task, sides)
            labels.append(compared.labels)
            found[seed] = {n: of[metric] for n, of in compared.by_run.items() if metric in of}
        same = all(np.array_equal(labels[0], other) for other in labels[1:])
        return cls(found, same)

    def interval(self, model: str) -> list[float] | None:
        """The ends of the 95 % interval of a model's mean over the seeds."""
        parts = [of[model] for of in self.by_seed.values() if model in of]
        if not parts:
            return None
        if self.same_rows:
            found = interval_of(*mean_of(parts))
            return [found.low, found.high]
        return _independent([interval_of(*part) for part in parts])[1:]

    def difference(self, model: str, reference: str | None) -> list[float] | None:
        """What a model's mean is ahead of the reference, with the ends of its interval."""
        pairs = [
            (of[model], of[reference])
            for of in self.by_seed.values()
            if reference is not None and {model, reference} <= of.keys()
        ]
        if model == reference or not pairs:
            return None
        if self.same_rows:
            ours, theirs = (mean_of(part) for part in zip(*pairs, strict=True))
            found = difference(ours, theirs)
            return [found.value, found.low, found.high]
        return _independent([difference(*pair) for pair in pairs])


def _independent(parts: Sequence[Interval | Difference]) -> list[float]:
    """The mean of independent numbers, with the ends of its interval."""
    value = mean(part.value for part in parts)
    margin = math.hypot(*((part.high - part.low) / 2 for part in parts)) / len(parts)
    return [value, value - margin, value + margin]
