"""The metric by which a board or a search compares experiments."""

from __future__ import annotations

from collections.abc import Collection

from pipelines.common.errors import check_known
from pipelines.experiment.config import Experiment
from pipelines.experiment.gate_options import WHOLE, of_task
from pipelines.metrics import METRICS
from recsys_attn.schema import Task

_MINIMISED = (
    "logloss",
    "normalised_entropy",
    "recalibrated_entropy",
    "calibration_error",
    "ici",
)


def is_minimised(metric: str, minimise: bool | None) -> bool:
    """Whether smaller values of a metric are better; `minimise` says so of a custom metric."""
    return metric in _MINIMISED if minimise is None else minimise


def check_metric(
    experiment: Experiment,
    key: str,
    tasks: Collection[str],
    metric: str,
    minimise: bool | None = None,
) -> None:
    """Checks that tasks have a metric, and that its better direction is known.

    Args:
        experiment: The experiment.
        key: The key that names the tasks.
        tasks: Their names; none: all tasks.
        metric: The metric.
        minimise: Whether smaller values of a custom metric are better.

    Raises:
        ValueError: A task or the metric is unknown, or `minimise` is missing or has no effect.
    """
    check_known(key, tasks, [task.name for task in experiment.tasks])
    for task in experiment.tasks:
        if not tasks or task.name in tasks:
            check_known("metric", [metric], _metrics_of(experiment, task))
    if metric in METRICS and minimise is None:
        raise ValueError(
            f"`minimise` is missing: {metric!r} is a metric of your own. Add `minimise = true` if "
            "smaller values are better, else `minimise = false`."
        )
    if metric not in METRICS and minimise is not None:
        raise ValueError(
            f"`minimise` is for metrics of your own. Leave it out. Received: metric={metric!r}"
        )


def _metrics_of(experiment: Experiment, task: Task) -> list[str]:
    """The metrics of a task that have a better direction."""
    options, has_requests = experiment.evaluation, experiment.data.has_requests
    missing = {"calibration"}  # best at 1
    if not has_requests:
        missing |= {name for name in options.further_metrics if "@" in name}
    if not has_requests and options.group is None:
        missing.add("gauc")
    return [m for m in of_task(task, [*WHOLE, *options.further_metrics]) if m not in missing]
