"""Runs every model of a board with every seed, one after the other; finished runs are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from pipelines.boards.board import BoardModel, LoadedBoard
from pipelines.common.errors import PipelineError
from pipelines.report.results import Evaluation
from pipelines.workflow.quiet_run import run_quietly
from pipelines.workflow.steps import Steps


class BoardRun(NamedTuple):
    """A finished run of a board.

    Attributes:
        model: The model's line.
        seed: The seed.
        evaluation: Metrics and predictions.
        seconds: Of its training.
        weights: Number of trained weights.
    """

    model: BoardModel
    seed: int
    evaluation: Evaluation
    seconds: float
    weights: int


def run_board(
    loaded: LoadedBoard, names: Sequence[str], seeds: int, folder: Path, console: Console
) -> Iterator[BoardRun]:
    """Trains and evaluates, and yields each run.

    Args:
        loaded: The board.
        names: The models to run.
        seeds: Number of seeds: the experiment's, and those after it.
        folder: A folder for the run folders, one for each model and seed.
        console: Shows a line for each run; the steps write into `log.txt` of the run folder.

    Raises:
        PipelineError: A run fails; the sentence names it. Start again to go on after it.
    """
    chosen = [model for model in loaded.board.models if model.name in names]
    # All files are checked before the first hour of training.
    first = {model.name: loaded.experiment(model).seed for model in chosen}
    made: dict[int, Steps] = {}
    total = seeds * len(chosen)
    for number, (place, model) in enumerate((p, m) for p in range(seeds) for m in chosen):
        seed = first[model.name] + place
        console.print(f"[{number + 1}/{total}] {model.name}, seed {seed} ...", end=" ")
        run = folder / f"{_slug(model.name)}-{seed}"
        try:
            steps = run_quietly(loaded.experiment(model, seed), run, made.get(seed))
        except PipelineError as error:
            console.print()
            raise PipelineError(f"{model.name}, seed {seed}: {error}") from None
        made.setdefault(seed, steps)
        found = _found(model, seed, steps)
        console.print(escape(_shown(loaded, found)))
        yield found


def _found(model: BoardModel, seed: int, steps: Steps) -> BoardRun:
    trained = steps.run.manifest("train")
    evaluation = Evaluation.read(steps.run.path("evaluate"))
    return BoardRun(model, seed, evaluation, trained["seconds"], trained["weights"])


def _shown(loaded: LoadedBoard, run: BoardRun) -> str:
    metric = loaded.board.metric
    values = [
        f"{task} {metric} {value_of(run.evaluation, task, metric):.4f}"
        for task in shown_tasks(loaded, run.evaluation)
    ]
    return f"{', '.join(values)}, {run.seconds:,.0f} s"


def shown_tasks(loaded: LoadedBoard, evaluation: Evaluation) -> list[str]:
    """The tasks of a board.

    Raises:
        PipelineError: The experiment has no such task.
    """
    known = list(evaluation.metrics["tasks"])
    missing = [task for task in loaded.board.tasks if task not in known]
    if missing:
        raise PipelineError(f"{loaded.name}: `tasks` names {missing}; expected some of {known}.")
    return list(loaded.board.tasks) or known


def value_of(evaluation: Evaluation, task: str, metric: str) -> float:
    """A metric of a task, of all rows.

    Raises:
        PipelineError: The evaluation has no such metric.
    """
    found = evaluation.metrics["tasks"][task]
    every = {**found.get("own", {}), **found.get("at_k", {}), **found}
    value = every.get(metric)
    if not isinstance(value, float):
        numbers = [name for name, each in every.items() if isinstance(each, float)]
        raise PipelineError(
            f"`metric` names {metric!r}, which task {task!r} does not have; expected one of "
            f"{', '.join(numbers)}."
        )
    return value


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
