"""Checks of the labels that a model needs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pipelines.common.errors import PipelineError
from recsys_attn.models import RankingModel


def check_same_rows(
    model: RankingModel, labels: Mapping[str, Mapping[str, tuple[int, int] | list[int]]]
) -> None:
    """Checks the labels of a model that compares the probabilities of its tasks.

    Args:
        model: The model; another one has no such needs.
        labels: Known and positive rows by task and split; none for no check.

    Raises:
        PipelineError: The tasks have labels in other rows, or a later task happens more often.
    """
    if not model.same_rows or not labels:
        return
    for before, task in itertools.pairwise(task.name for task in model.schema.tasks):
        (rows, earlier), (known, positive) = labels[before]["train"], labels[task]["train"]
        if known != rows:
            raise PipelineError(
                f"The model {model.name!r} compares {task!r} and {before!r} over the same rows: "
                f"the label of {task!r} must be 0, and not null, where {before!r} did not happen. "
                f"Received in the train split: {known} rows with a label of {task!r}, {rows} with "
                f"one of {before!r}."
            )
        if positive > earlier:
            raise PipelineError(
                f"The tasks of the model {model.name!r} must stand in their order, such as click, "
                f"then buy. Received in the train split: {positive} positive rows of {task!r} "
                f"after {earlier} of {before!r}."
            )
