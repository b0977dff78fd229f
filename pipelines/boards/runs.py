"""Runs every model of a board with every seed; finished runs are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from pipelines.boards.board import BoardModel, LoadedBoard
from pipelines.common.errors import PipelineError, check_known
from pipelines.engines import LOCAL, Engine
from pipelines.experiment.compared_metric import check_metric
from pipelines.experiment.config import Experiment
from pipelines.report.results import Evaluation
from pipelines.training import check_model
from pipelines.workflow.quiet_run import DATA_STEPS, EVALUATED, run_quietly, training_seconds
from pipelines.workflow.steps import Steps
from serving.state.errors import DataError


class BoardRun(NamedTuple):
    """A finished run of a board.

    Attributes:
        model: The model's line.
        seed: The seed.
        evaluation: Metrics and predictions.
        seconds: Of its training.
        weights: Number of trained weights.
        commit: Of the code that trained it, where that is known.
        warnings: Sentences of the training, such as about a task that has learned nothing.
    """

    model: BoardModel
    seed: int
    evaluation: Evaluation
    seconds: float
    weights: int
    commit: str | None
    warnings: list[str]


class _Planned(NamedTuple):
    """A run to finish: picklable, for workers of any engine."""

    loaded: LoadedBoard
    model: BoardModel
    seed: int
    folder: Path
    data: Path  # the run folder of the same seed whose ingested rows and features are taken

    @property
    def title(self) -> str:
        return f"{self.model.name}, seed {self.seed}"

    def finish(self, steps: Sequence[str] = EVALUATED) -> None:
        """Runs the unfinished steps.

        Raises:
            PipelineError: A step fails; the sentence names the run.
        """
        try:
            run_quietly(self._experiment, self.folder, self.data, steps)
        except DataError as error:
            raise PipelineError(f"{self.title}: {error}") from None

    def result(self) -> BoardRun:
        """Reads the finished run."""
        run = Steps.of(self._experiment, self.folder, Console(quiet=True), force=False).run
        trained = run.manifest("train")
        evaluation = Evaluation.read(run.path("evaluate"))
        return BoardRun(
            self.model,
            self.seed,
            evaluation,
            training_seconds(trained),
            trained["weights"],
            trained.get("commit"),
            trained["warnings"],
        )

    @property
    def _experiment(self) -> Experiment:
        return self.loaded.experiment(self.model, self.seed)


def run_board(
    loaded: LoadedBoard,
    names: Sequence[str],
    seeds: int,
    folder: Path,
    console: Console,
    engine: Engine = LOCAL,
) -> Iterator[BoardRun]:
    """Trains and evaluates, and yields each run.

    Args:
        loaded: The board.
        names: The models to run.
        seeds: Number of seeds: the experiment's, and those after it.
        folder: A folder for the run folders, one for each model and seed.
        console: Shows a line for each run; the steps write into `log.txt` of the run folder.
        engine: Runs the trainings.

    Raises:
        PipelineError: A run fails; the sentence names it. Start again to go on after it.
    """
    models = [model for model in loaded.board.models if model.name in names]
    # All files are checked before the first hour of training.
    for model in models:
        check_shown(loaded, model)
        _check_model(loaded, model)
    first = {model.name: loaded.experiment(model).seed for model in models}
    planned, data = [], dict[int, Path]()
    for place, model in ((place, model) for place in range(seeds) for model in models):
        seed = first[model.name] + place
        run_folder = folder.resolve() / f"{model.slug}-{seed}"
        planned.append(_Planned(loaded, model, seed, run_folder, data.setdefault(seed, run_folder)))
    for run in planned:
        if run.folder == run.data:
            run.finish(DATA_STEPS)
    results = engine.map_ordered(_finishing, planned)
    with contextlib.closing(results):
        for number, run in enumerate(planned):
            console.print(f"[{number + 1}/{len(planned)}] {escape(run.title)} ...", end=" ")
            try:
                next(results)
            except DataError:
                console.print()
                raise
            result = run.result()
            console.print(escape(_shown(loaded, result)))
            for sentence in result.warnings:
                console.print(f"  [yellow]{escape(sentence)}[/]", soft_wrap=True)
            yield result


def _check_model(loaded: LoadedBoard, model: BoardModel) -> None:
    try:
        check_model(loaded.experiment(model))
    except DataError as error:
        raise PipelineError(f"{loaded.name}, model {model.name!r}: {error}") from None


@contextlib.contextmanager
def _finishing() -> Iterator[Callable[[_Planned], None]]:
    yield _Planned.finish


def _shown(loaded: LoadedBoard, run: BoardRun) -> str:
    metric = loaded.board.metric
    values = [
        f"{task} {metric} {run.evaluation.value(task, metric):.4f}"
        for task in shown_tasks(loaded, run.evaluation)
    ]
    return f"{', '.join(values)}, {run.seconds:,.0f} s"


def shown_tasks(loaded: LoadedBoard, evaluation: Evaluation) -> list[str]:
    """The tasks of a board that a run has."""
    return [
        task
        for task in evaluation.metrics["tasks"]
        if not loaded.board.tasks or task in loaded.board.tasks
    ]


def check_shown(loaded: LoadedBoard, model: BoardModel) -> None:
    """Checks `tasks`, `metric`, `minimise` and `published` for a model.

    Raises:
        PipelineError: The model has no such task or metric, or one published number is for several
            tasks.
    """
    board, experiment = loaded.board, loaded.experiment(model)
    known = [task.name for task in experiment.tasks]
    tasks = board.tasks or known
    try:
        check_metric(experiment, "tasks", board.tasks, board.metric, board.minimise)
        if isinstance(model.published, dict):
            check_known("published", model.published, known)
    except ValueError as error:
        raise PipelineError(f"{loaded.name}, model {model.name!r}: {error}") from None
    if isinstance(model.published, float) and len(tasks) > 1:
        raise PipelineError(
            f"{loaded.name}, model {model.name!r}: `published` is one number, and the board shows "
            f"the tasks {', '.join(tasks)}. Give it by task, such as "
            f"{{ {tasks[0]} = {model.published} }}, or name one task in `tasks`."
        )
