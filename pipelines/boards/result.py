"""The table of a board: numbers over seeds, intervals, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

from pipelines.boards.board import Board, BoardModel, LoadedBoard
from pipelines.boards.influences import Influences
from pipelines.boards.runs import BoardRun, shown_tasks
from pipelines.experiment.compared_metric import is_minimised

REPRODUCED, BETTER, WORSE = "reproduced", "better", "not reproduced"


class Line(NamedTuple):
    """A model and a task.

    Attributes:
        model: The model's name.
        task: The task.
        published: The published number, or None.
        source: Where it was published.
        value: The mean over the seeds.
        spread: Their standard deviation; None with one seed.
        seeds: The values by seed.
        interval: Ends of the 95 % interval of the mean for other test rows, drawn by user or
            request; None where the metric has none.
        difference: What the mean is ahead of the reference, with the ends of its paired interval;
            None without one.
        verdict: In words.
        seconds: Mean time of a training.
        weights: Number of trained weights.
        commits: Of the code that trained them, where that is known.
    """

    model: str
    task: str
    published: float | None
    source: str
    value: float
    spread: float | None
    seeds: dict[int, float]
    interval: list[float] | None
    difference: list[float] | None
    verdict: str
    seconds: float
    weights: int
    commits: list[str]


def table(loaded: LoadedBoard, runs: Sequence[BoardRun]) -> list[Line]:
    """The lines of a board: one for each task and model that has it, in the order of the board.

    Raises:
        PipelineError: A model and its reference have other test rows.
    """
    lines = []
    tasks = dict.fromkeys(task for run in runs for task in shown_tasks(loaded, run.evaluation))
    for task in tasks:
        with_task = [run for run in runs if task in run.evaluation.metrics["tasks"]]
        known = Influences.of(task, loaded.board.metric, with_task)
        for name in dict.fromkeys(run.model.name for run in with_task):
            of_model = [run for run in with_task if run.model.name == name]
            lines.append(_line(loaded.board, task, of_model, known))
    return lines


def verdict(board: Board, model: BoardModel, task: str, value: float) -> str:
    """Compares a mean over seeds with the published number; empty without one."""
    published = model.published_for(task)
    if model.not_comparable:
        return f"not comparable: {model.not_comparable}"
    if published is None:
        return ""
    ahead = value - published
    if is_minimised(board.metric, board.minimise):
        ahead = -ahead
    if ahead < -board.tolerance:
        return WORSE
    return BETTER if ahead > board.tolerance else REPRODUCED


def _line(board: Board, task: str, runs: Sequence[BoardRun], known: Influences) -> Line:
    model = runs[0].model
    values = {run.seed: run.evaluation.value(task, board.metric) for run in runs}
    value = mean(values.values())
    return Line(
        model.name,
        task,
        model.published_for(task),
        model.source,
        value,
        stdev(values.values()) if len(values) > 1 else None,
        values,
        known.interval(model.name),
        known.difference(model.name, board.reference_of(model)),
        verdict(board, model, task, value),
        mean(run.seconds for run in runs),
        runs[0].weights,
        list(dict.fromkeys(run.commit for run in runs if run.commit)),
    )
