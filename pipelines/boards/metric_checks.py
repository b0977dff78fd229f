"""The tasks and the metric that a board shows, checked before any training."""

from __future__ import annotations

from pipelines.boards.board import BoardModel, LoadedBoard
from pipelines.common.errors import PipelineError, check_known
from pipelines.experiment.compared_metric import check_metric


def check_shown(loaded: LoadedBoard, model: BoardModel) -> None:
    """Checks `tasks`, `metric`, `minimise` and `published` for a model.

    Raises:
        PipelineError: The model has no such task or metric, or one published number is for several
            tasks.
    """
    board, experiment = loaded.board, loaded.experiment(model)
    known = [task.name for task in experiment.tasks]
    shown = board.tasks or known
    try:
        check_metric(experiment, "tasks", board.tasks, board.metric, board.minimise)
        if isinstance(model.published, dict):
            check_known("published", model.published, known)
    except ValueError as error:
        raise PipelineError(f"{loaded.name}, model {model.name!r}: {error}") from None
    if isinstance(model.published, float) and len(shown) > 1:
        raise PipelineError(
            f"{loaded.name}, model {model.name!r}: `published` is one number, and the board shows "
            f"the tasks {', '.join(shown)}. Give it by task, such as "
            f"{{ {shown[0]} = {model.published} }}, or name one task in `tasks`."
        )
