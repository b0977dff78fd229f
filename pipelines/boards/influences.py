"""Intervals of means over seeds, and of their differences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import mean, stdev

import numpy as np
from scipy.stats import t as students_t

from pipelines.boards.runs import BoardRun
from pipelines.common.errors import PipelineError
from pipelines.metrics.intervals import (
    Difference,
    Influence,
    Interval,
    difference,
    interval_of,
    mean_of,
)
from pipelines.report.compared_models import Side
from pipelines.report.comparison import TaskComparison


@dataclass(frozen=True)
class Influences:
    """The influence of each user or request on a metric, for each model and seed.

    Attributes:
        by_model: By model and seed.
        rows: The fingerprint of the test rows, by model and seed.
    """

    by_model: dict[str, dict[int, Influence]]
    rows: dict[str, dict[int, str]]

    @classmethod
    def of(cls, task: str, metric: str, runs: Sequence[BoardRun]) -> Influences:
        """The influences on a metric of a task; there are none on one without an interval."""
        by_model: dict[str, dict[int, Influence]] = defaultdict(dict)
        rows: dict[str, dict[int, str]] = defaultdict(dict)
        for run in runs:
            name = run.model.name
            compared = TaskComparison(task, [Side({name: run.evaluation})])
            influences = compared.by_run[name]
            if metric in influences:
                by_model[name][run.seed] = influences[metric]
            arrays = compared.labels, compared.clusters
            rows[name][run.seed] = sha256(b"".join(map(np.ndarray.tobytes, arrays))).hexdigest()
        return cls(by_model, rows)

    def interval(self, model: str) -> list[float] | None:
        """The ends of the 95 % interval of a model's mean over the seeds."""
        parts = list(self.by_model.get(model, {}).values())
        if not parts:
            return None
        if self._same_rows(model):
            pooled = interval_of(*mean_of(parts))
            return [pooled.low, pooled.high]
        return _independent([interval_of(*part) for part in parts])[1:]

    def difference(self, model: str, reference: str | None) -> list[float] | None:
        """The lead of a model's mean over the reference's, with the ends of its interval.

        The interval holds for other test rows and, with several seeds, for other seeds.

        Raises:
            PipelineError: The test rows of both are not the same.
        """
        if reference is None or model == reference or reference not in self.rows:
            return None
        ours, theirs = (self.by_model.get(name, {}) for name in (model, reference))
        seeds = [seed for seed in ours if seed in theirs]
        for seed in seeds:
            if self.rows[model][seed] != self.rows[reference][seed]:
                raise PipelineError(
                    f"The model {model!r} and its reference {reference!r} have other test rows "
                    f"(seed {seed}), so their difference has no meaning. Give {model!r} a "
                    "`reference` with the same data."
                )
        if not seeds:
            return None
        parts = [difference(ours[seed], theirs[seed]) for seed in seeds]
        of_seeds = _margin([part.value for part in parts])
        if self._same_rows(model):
            pair = [mean_of([of[seed] for seed in seeds]) for of in (ours, theirs)]
            paired = difference(*pair)
            margin = math.hypot((paired.high - paired.low) / 2, of_seeds)
        else:  # differences of seeds hold the chance of their rows too
            _, low, high = _independent(parts)
            margin = max((high - low) / 2, of_seeds)
        value = mean(part.value for part in parts)
        return [value, value - margin, value + margin]

    def _same_rows(self, model: str) -> bool:
        """Whether all seeds have the same rows; else those of the seeds are independent."""
        return len(set(self.rows[model].values())) == 1


def _margin(values: Sequence[float]) -> float:
    """Half of Student's 95 % interval of a mean over seeds; 0 for one, which says nothing of it."""
    if len(values) == 1:
        return 0.0
    quantile = students_t.ppf(0.975, df=len(values) - 1)
    return float(quantile) * stdev(values) / math.sqrt(len(values))


def _independent(parts: Sequence[Interval | Difference]) -> list[float]:
    """The mean of independent numbers, with the ends of its interval."""
    value = mean(part.value for part in parts)
    margin = math.hypot(*((part.high - part.low) / 2 for part in parts)) / len(parts)
    return [value, value - margin, value + margin]
