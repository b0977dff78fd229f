"""The section of the page that compares the run with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.common.errors import PipelineError
from pipelines.report.compared_models import (
    Side,
    check_same_rows,
    common_tasks,
    missing_tasks,
    sides_of,
)
from pipelines.report.comparison import TaskComparison
from pipelines.report.results import Evaluation


def compared(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """The first of several evaluations against the others, for the page and the console.

    Args:
        evaluations: The evaluations by the name of their run. Runs of one experiment with
            different seeds count as one model.

    Returns:
        `sides`, one for each model besides the first: its `name` and by task the `verdict`, the
        differences of `metrics`, `segments` and `moved` rows; `seeds`: for each model with several,
        the metrics of each; and `missing`, the tasks that not all have.

    Raises:
        PipelineError: The evaluations are of different rows, labels or tasks.
    """
    check_same_rows(evaluations)
    ours, *others = sides_of(evaluations)
    tasks = common_tasks(evaluations)
    if not tasks:
        raise PipelineError(f"No task is common to all of {', '.join(evaluations)}.")
    by_task = {task: TaskComparison(task, [ours, *others]) for task in tasks}
    return {
        "name": ours.name,
        "unit": next(iter(by_task.values())).unit,
        "sides": [_side(by_task, ours, theirs) for theirs in others],
        "seeds": [_seeds(by_task, side) for side in (ours, *others) if len(side.runs) > 1],
        "missing": missing_tasks(evaluations, tasks),
    }


def _side(by_task: Mapping[str, TaskComparison], ours: Side, theirs: Side) -> dict[str, Any]:
    return {
        "name": theirs.name,
        "first": next(iter(theirs.runs)),
        "tasks": {
            task: {
                "verdict": comparison.verdict(ours, theirs),
                "metrics": comparison.differences(ours, theirs),
                "segments": comparison.segments(ours, theirs),
                "moved": comparison.moved(ours, theirs),
                "probabilities": comparison.probabilities,
            }
            for task, comparison in by_task.items()
        },
    }


def _seeds(by_task: Mapping[str, TaskComparison], side: Side) -> dict[str, Any]:
    runs = list(side.runs)
    return {
        "name": runs[0],
        "runs": runs,
        "seeds": side.seeds,
        "tasks": {task: comparison.seeds(side) for task, comparison in by_task.items()},
        "verdicts": [f"{task}: {comparison.spread(side)}" for task, comparison in by_task.items()],
    }


def verdicts(comparison: Mapping[str, Any]) -> list[str]:
    """The sentences of a comparison; of one model alone, those of its seeds."""
    texts = [task["verdict"] for side in comparison["sides"] for task in side["tasks"].values()]
    return texts or [text for seeds in comparison["seeds"] for text in seeds["verdicts"]]
