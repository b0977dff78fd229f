"""Checks of an experiment whose negatives are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment
from pipelines.ingest.item_features import check_covered


def check_draws(experiment: Experiment) -> None:
    """Checks before any work that items can be drawn in training."""
    items = experiment.data.items
    if items is not None and experiment.training.negatives is not None:
        check_covered(items, experiment.model_schema, "training.negatives")


def comparable(experiment: Experiment, manifest: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Requests with a positive and a negative by task and split, drawn negatives included.

    Args:
        experiment: The experiment.
        manifest: The manifest of the data.
    """
    counts: dict[str, dict[str, int]] = manifest["comparable"]
    if experiment.training.negatives is None:
        return counts
    labels = manifest["labels"]
    return {task: {**of, "train": labels[task]["train"][1]} for task, of in counts.items()}


def check_train_labels(
    experiment: Experiment, labels: Mapping[str, Mapping[str, list[int]]]
) -> None:
    """Checks that training has negatives, in its rows or drawn ones.

    Args:
        experiment: The experiment.
        labels: Known and positive rows by task and split.
    """
    for task, counts in labels.items():
        known, positive = counts["train"]
        if known == positive and experiment.training.negatives is None:
            raise PipelineError(
                f"The task {task!r} has no negative rows in the train split. Add the table "
                "`training.negatives`, such as `negatives = { count = 20 }`, to draw them."
            )
