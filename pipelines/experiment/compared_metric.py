"""The metric by which a board or a search compares experiments."""

from __future__ import annotations

from collections.abc import Collection

from pipelines.common.errors import check_known
from pipelines.experiment.config import Experiment
from pipelines.experiment.gate_options import of_task
from pipelines.metrics import METRICS
from recsys_attn.schema import Task


def is_minimised(metric: str, minimise: bool | None) -> bool:
    """Whether smaller values of a metric are better; `minimise` says so of a custom metric."""
    known = METRICS.get(metric)
    return bool(minimise) if known is None or known.better is None else known.better == "lower"


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
    is_open = metric in METRICS and METRICS[metric].better is None
    if is_open and minimise is None:
        raise ValueError(
            f"`minimise` is missing: {metric!r} is a metric of your own. Add `minimise = true` if "
            "smaller values are better, else `minimise = false`; or register it with `better`."
        )
    if not is_open and minimise is not None:
        raise ValueError(
            f"`minimise` is for metrics whose better direction is unknown. Leave it out. "
            f"Received: metric={metric!r}"
        )


def _metrics_of(experiment: Experiment, task: Task) -> list[str]:
    """The metrics of a task that have a better direction."""
    options, has_requests = experiment.evaluation, experiment.data.has_requests
    has_groups = has_requests or options.group is not None
    names = [
        metric.name
        for metric in METRICS.of_all_rows
        if metric.better in ("higher", "lower") and (has_groups or metric.unit != "groups")
    ]
    further = [name for name in options.further_metrics if has_requests or "@" not in name]
    return of_task(task, [*names, *further])
