"""Sentences about the tasks and experts of a trained model that have died."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.experts import died
from pipelines.audit.sampled_rows import drawn_rows, rows_of
from pipelines.experiment.monitor import CHANCE
from pipelines.feed import Feed
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task

ROWS = 4096  # of the validation rows
_GATE = "gate/"


def dead_tasks(tasks: Sequence[Task], epochs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Names the tasks that have learned nothing.

    A ranking loss compares candidates of one request, so the AUC over all requests says little of
    its task: it is named only if all scores are equal.

    Args:
        tasks: The tasks.
        epochs: Metrics of each epoch, up to the kept one.
    """
    penalty = "lower a penalty (such as `training.embeddings_l2`)"
    advice = f"or {penalty}"
    if len(tasks) > 1:
        advice = f"{penalty}, raise the weight of the task, or set `training.task_weights`"
    for task in tasks if epochs else ():
        aucs = [epoch[f"val_{task.name}_auc"] for epoch in epochs]
        chance = epochs[-1].get(f"val_{task.name}_{CHANCE}", 0.0)
        if aucs[-1] == 0.5:  # or a rare chance on few rows
            yield (
                f"Task {task.name!r} has an AUC of exactly 0.5, as if all rows had the same score: "
                f"it has probably died. Lower `training.learning_rate`, {advice}."
            )
        elif max(aucs) <= chance:
            yield (
                f"Task {task.name!r} may have learned nothing: on the validation rows its AUC was "
                f"never above {chance:.3f}, which random scores reach too. Check its label, "
                f"train for more `training.epochs`, {advice}."
            )


def dead_experts(model: RankingModel, valid: Feed, seed: int) -> Iterator[str]:
    """Names the experts that no task uses, by a sample of the validation rows.

    Args:
        model: The trained model.
        valid: The validation split.
        seed: Seed of the sample.
    """
    if not model.tower.has_experts:
        return
    _, table = drawn_rows(valid, ROWS, seed)
    sums: dict[str, NDArray[Any]] = {}
    for inputs in rows_of(table, valid.fitted):
        for name, gates in model.explain(inputs)[1].items():
            if name.startswith(_GATE):
                shares = np.asarray(gates, "float64")[:, 0].sum(axis=0)
                sums[name] = sums.get(name, 0) + shares
    yield from died({name: shares / len(table) for name, shares in sums.items()})
