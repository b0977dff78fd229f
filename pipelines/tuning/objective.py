"""The number that a search improves: a metric of the validation rows."""

from __future__ import annotations

from statistics import mean
from typing import NamedTuple

from pipelines.common.errors import PipelineError
from pipelines.experiment.compared_metric import check_metric, is_minimised
from pipelines.experiment.config import Experiment
from pipelines.report.results import Evaluation
from pipelines.tuning.search import LoadedSearch

SPLIT = "valid"


class SearchObjective(NamedTuple):
    """A metric of some tasks.

    Attributes:
        metric: Its name in metrics.json.
        tasks: The tasks; several count by their mean.
        is_minimised: Whether smaller values are better.
    """

    metric: str
    tasks: tuple[str, ...]
    is_minimised: bool

    @classmethod
    def of(cls, loaded: LoadedSearch) -> SearchObjective:
        """The metric of a search.

        Raises:
            PipelineError: The experiment has no such task, or the task no such metric.
        """
        experiment, search = loaded.experiment(), loaded.search
        tasks = () if search.task is None else (search.task,)
        try:
            check_metric(experiment, "task", tasks, search.metric, search.minimise)
        except ValueError as error:
            raise PipelineError(f"{loaded.path}: {error}") from None
        return cls(
            search.metric,
            tasks or tuple(task.name for task in experiment.tasks),
            is_minimised(search.metric, search.minimise),
        )

    def value(self, evaluation: Evaluation) -> float:
        """The number of a trial."""
        return mean(evaluation.value(task, self.metric) for task in self.tasks)

    def __str__(self) -> str:
        """The metric in words: `auc of click`, `mean auc`."""
        return (
            f"{self.metric} of {self.tasks[0]}" if len(self.tasks) == 1 else f"mean {self.metric}"
        )


def on_validation(experiment: Experiment) -> Experiment:
    """The experiment of a trial: it evaluates the metrics of the validation rows, nothing else."""
    options = experiment.evaluation.metrics_only.model_copy(
        update={"split": SPLIT, "gates": (), "segments": (), "slices": False}
    )
    return experiment.model_copy(update={"evaluation": options})
