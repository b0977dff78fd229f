"""The evaluations to compare, as sides: a model each, trained with one seed or several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation


@dataclass(frozen=True)
class Side:
    """Runs of one experiment that differ in their seeds.

    Attributes:
        runs: The evaluations by the name of their run.
    """

    runs: Mapping[str, Evaluation]

    @property
    def name(self) -> str:
        """The first run, and the number of seeds if there are several."""
        first = next(iter(self.runs))
        return first if len(self.runs) == 1 else f"{first} ({len(self.runs)} seeds)"

    @property
    def seeds(self) -> list[Any]:
        """The seed of each run."""
        return [run.metrics["seed"] for run in self.runs.values()]


def sides_of(evaluations: Mapping[str, Evaluation]) -> list[Side]:
    """The evaluations by experiment; that of the first one comes first.

    Runs belong together if model, features and settings of data and training are the same and each
    has a seed of its own.
    """
    by_experiment: dict[str, dict[str, Evaluation]] = {}
    for run, evaluation in evaluations.items():
        metrics = evaluation.metrics
        settings = {
            key: value
            for key, value in metrics.get("settings", {}).items()
            if not key.startswith("evaluation.")
        }
        known = metrics["model"], settings, metrics.get("features")
        key = json.dumps(known if settings else run, sort_keys=True, default=str)
        others = by_experiment.get(key, {}).values()
        if any(metrics["seed"] == other.metrics["seed"] for other in others):
            key = run  # the same experiment again is no further seed
        by_experiment.setdefault(key, {})[run] = evaluation
    return [Side(runs) for runs in by_experiment.values()]


def common_tasks(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """The tasks that all evaluations have."""
    first, *others = (evaluation.metrics["tasks"] for evaluation in evaluations.values())
    return [task for task in first if all(task in tasks for tasks in others)]


def check_same_rows(evaluations: Mapping[str, Evaluation]) -> None:
    """Checks that all evaluations are of the same rows with the same labels.

    Their data may differ in other columns.

    Raises:
        PipelineError: The rows differ; the sentence says between which runs, and in what.
    """
    (name, first), *others = evaluations.items()
    for other, evaluation in others:
        difference = _difference(first, evaluation)
        if difference:
            raise PipelineError(
                f"{other} cannot be compared with {name}: {difference}. Evaluate both on the same "
                "rows, with the same data, split and labels."
            )


def _difference(first: Evaluation, other: Evaluation) -> str:
    """The first thing in which the rows of two evaluations differ, or an empty text."""
    one, two = first.metrics, other.metrics
    if one["split"] != two["split"]:
        return f"it was evaluated on the {two['split']} rows, not on the {one['split']} rows"
    tasks = [task for task in one["tasks"] if task in two["tasks"]]
    if not tasks:
        names = " and ".join(", ".join(map(repr, metrics["tasks"])) for metrics in (two, one))
        return f"they have no task in common: {names}"
    if one["rows"] != two["rows"]:
        return f"it was evaluated on {two['rows']:,} rows, not on {one['rows']:,}"
    drawn = one.get("drawn_negatives") or two.get("drawn_negatives")
    if drawn and one["data_hash"] != two["data_hash"]:
        return "negatives were drawn for each request, and the data of the two is not the same"
    for task in tasks:
        labels, others = first.labels(task), other.labels(task)
        if labels.size != others.size:
            return f"its predictions have {others.size:,} rows, not {labels.size:,}"
        differ = np.count_nonzero((labels != others) & ~(np.isnan(labels) & np.isnan(others)))
        if differ:
            return f"its labels of task {task!r} differ in {differ:,} of {labels.size:,} rows"
    return ""


def missing_tasks(evaluations: Mapping[str, Evaluation], common: Sequence[str]) -> list[str]:
    """The tasks that only some of the evaluations have."""
    every = dict.fromkeys(
        t for evaluation in evaluations.values() for t in evaluation.metrics["tasks"]
    )
    return [task for task in every if task not in common]
