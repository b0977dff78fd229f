"""Checks that tasks have candidates to compare, and negatives, in the rows or drawn ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipelines.common.errors import PipelineError
from pipelines.experiment.monitor import Monitor
from pipelines.ingest.data_options import DataOptions
from recsys_attn.schema import Schema


def check_ranked_tasks(schema: Schema, data: DataOptions, monitor: Monitor) -> None:
    """Checks requests and features, before any work.

    Args:
        schema: The features that the model uses, and the tasks.
        data: The `[data]` table.
        monitor: The monitored metric.

    Raises:
        ValueError: Every row is a request of its own, or all its candidates would score the same.
    """
    for what, _, _ in _comparisons(schema, monitor):
        if not data.has_requests:
            raise ValueError(
                f"{what} compares the candidates of a request, but each row is a request of its "
                "own. Name the column of the request as `data.request`, or leave it out."
            )
        if not any(feature.side == "candidate" for feature in schema.features):
            raise ValueError(
                f"{what} compares the candidates of a request, but all features of the model have "
                '`side = "context"`, so that all candidates of a request score the same. Add a '
                "feature of the candidate, or leave it out."
            )


def check_train_labels(labels: Mapping[str, Mapping[str, list[int]]]) -> None:
    """Checks that tasks have negatives in the train rows, where none are drawn.

    Args:
        labels: Known and positive rows by task and split.

    Raises:
        PipelineError: A task has none.
    """
    for task, counts in labels.items():
        known, positive = counts["train"]
        if known == positive:
            raise PipelineError(
                f"The task {task!r} has no negative rows in the train split. Add the table "
                "`training.negatives`, such as `negatives = { count = 20 }`, to draw them."
            )


def check_comparable(
    schema: Schema, monitor: Monitor, counts: Mapping[str, Mapping[str, int]]
) -> None:
    """Checks that the data have requests to compare, before training.

    Args:
        schema: The features and tasks.
        monitor: The monitored metric.
        counts: Requests with a positive and a negative, by task and split.

    Raises:
        PipelineError: No request has a positive and a negative.
    """
    for what, task, split in _comparisons(schema, monitor):
        if not counts[task][split]:
            raise PipelineError(
                f"{what} compares the candidates of a request, but no request of the split "
                f"{split!r} has a positive and a negative of {task!r}. Check `data.request` and "
                "the label, or leave it out."
            )


def _comparisons(schema: Schema, monitor: Monitor) -> Iterator[tuple[str, str, str]]:
    """The loss or monitor that compares candidates, in words, its task and its split."""
    for index, task in enumerate(schema.tasks):
        if task.loss_options.compares_candidates:
            yield f'`tasks[{index}].loss` = "{task.loss_options.name}"', task.name, "train"
    for task_name in monitor.ranked:
        yield f"`training.monitor` ({monitor})", task_name, "valid"
