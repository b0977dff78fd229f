"""The number that a search improves: a metric of the validation rows."""

from __future__ import annotations

from statistics import mean
from typing import NamedTuple

from pipelines.boards.board import SMALLER_IS_BETTER
from pipelines.boards.runs import value_of
from pipelines.boards.shown import metrics_of
from pipelines.common.errors import PipelineError, check_known
from pipelines.experiment.config import Experiment
from pipelines.report.results import Evaluation
from pipelines.tuning.search import LoadedSearch

SPLIT = "valid"


class Objective(NamedTuple):
    """A metric of some tasks.

    Attributes:
        metric: Its name in metrics.json.
        tasks: The tasks; several count by their mean.
    """

    metric: str
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, loaded: LoadedSearch) -> Objective:
        """The metric of a search.

        Raises:
            PipelineError: The experiment has no such task, or the task no such metric.
        """
        experiment, search = loaded.experiment(), loaded.search
        known = [task.name for task in experiment.tasks]
        try:
            check_known("task", [] if search.task is None else [search.task], known)
            for task in experiment.tasks:
                if search.task in (None, task.name):
                    check_known("metric", [search.metric], metrics_of(experiment, task))
        except ValueError as error:
            raise PipelineError(f"{loaded.path}: {error}") from None
        return cls(search.metric, tuple(known) if search.task is None else (search.task,))

    @property
    def higher_is_better(self) -> bool:
        """Whether larger values are better; custom metrics count as such."""
        return self.metric not in SMALLER_IS_BETTER

    def value(self, evaluation: Evaluation) -> float:
        """The number of a trial."""
        return mean(value_of(evaluation, task, self.metric) for task in self.tasks)

    def __str__(self) -> str:
        """As for a reader: `auc of click`, `mean auc`."""
        return (
            f"{self.metric} of {self.tasks[0]}" if len(self.tasks) == 1 else f"mean {self.metric}"
        )


def on_validation(experiment: Experiment) -> Experiment:
    """The experiment of a trial: it evaluates the metrics of the validation rows, nothing else."""
    options = experiment.evaluation.metrics_only.model_copy(
        update={"split": SPLIT, "gates": (), "segments": (), "slices": False}
    )
    return experiment.model_copy(update={"evaluation": options})
