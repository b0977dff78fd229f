"""Checks of the labels that a model needs."""

from __future__ import annotations

import itertools

import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.split_summary import known_labels
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import RankingModel


def check_same_rows(model: RankingModel, train: DataSplit) -> None:
    """Checks the labels of a model that compares the probabilities of its tasks.

    Args:
        model: The model; another one has no such needs.
        train: The train rows.

    Raises:
        PipelineError: A row has a label of one task alone, or a task happened in a row where the
            one before did not.
    """
    if not model.same_rows:
        return
    tasks = model.schema.tasks
    columns = [name for task in tasks for name in (task.label_column, task.mask) if name]
    pairs = list(itertools.pairwise(tasks))
    alone, early = dict.fromkeys(range(len(pairs)), 0), dict.fromkeys(range(len(pairs)), 0)
    for rows in train.batches(list(dict.fromkeys(columns))):
        for place, (before, task) in enumerate(pairs):
            first, second = known_labels(rows, before), known_labels(rows, task)
            alone[place] += pc.sum(pc.xor(pc.is_null(first), pc.is_null(second))).as_py() or 0
            early[place] += pc.sum(pc.greater(second, first)).as_py() or 0
    for place, (before, task) in enumerate(pairs):
        if alone[place]:
            raise PipelineError(
                f"The model {model.name!r} compares {task.name!r} and {before.name!r} over the "
                "same rows: a row must have the labels of both or of neither, 0 where "
                "something did not happen. Received in the train split: the label of one of them "
                f"alone in {alone[place]} row{'s' * (alone[place] > 1)}."
            )
        if early[place]:
            raise PipelineError(
                f"The tasks of the model {model.name!r} must stand in their order, such as click, "
                f"then buy. Received in the train split: {task.name!r} happened and "
                f"{before.name!r} did not in {early[place]} row{'s' * (early[place] > 1)}."
            )
