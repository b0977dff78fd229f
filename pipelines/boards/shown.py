"""The tasks and metrics that a board may show, checked before any training."""

from __future__ import annotations

from pipelines.boards.board import BoardModel, LoadedBoard
from pipelines.common.errors import PipelineError, check_known
from pipelines.experiment.config import Experiment
from pipelines.experiment.gate_options import WHOLE, of_task
from recsys_attn.schema import Task


def metrics_of(experiment: Experiment, task: Task) -> list[str]:
    """The metrics of a task that have a better and a worse."""
    options, has_requests = experiment.evaluation, experiment.data.has_requests
    missing = {"calibration"}  # best at 1
    if not has_requests:
        missing |= {name for name in options.further_metrics if "@" in name}
    if not has_requests and options.group is None:
        missing.add("gauc")
    return [m for m in of_task(task, [*WHOLE, *options.further_metrics]) if m not in missing]


def check_shown(loaded: LoadedBoard, model: BoardModel) -> None:
    """Checks `tasks`, `metric` and `published` for a model.

    Raises:
        PipelineError: The model has no such task or metric, or one published number is for several
            tasks.
    """
    board, experiment = loaded.board, loaded.experiment(model)
    known = [task.name for task in experiment.tasks]
    shown = board.tasks or known
    try:
        check_known("tasks", board.tasks, known)
        for task in experiment.tasks:
            if task.name in shown:
                check_known("metric", [board.metric], metrics_of(experiment, task))
    except ValueError as error:
        raise PipelineError(f"{loaded.name}, model {model.name!r}: {error}") from None
    if isinstance(model.published, float) and len(shown) > 1:
        raise PipelineError(
            f"{loaded.name}, model {model.name!r}: `published` is one number, and the board shows "
            f"the tasks {', '.join(shown)}. Give it by task, such as "
            f"{{ {shown[0]} = {model.published} }}, or name one task in `tasks`."
        )
