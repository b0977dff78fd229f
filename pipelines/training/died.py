"""Sentences about the tasks and experts of a trained model that have died."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.experts import died
from pipelines.audit.rows import drawn_rows, rows_of
from pipelines.feed import Feed
from recsys_attn.models import RankingModel

ROWS = 4096  # of the validation rows
NO_ORDER = 0.51  # an AUC below it
_GATE = "gate/"


def dead_tasks(tasks: Sequence[str], epochs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Names the tasks that have learned nothing.

    Args:
        tasks: Names of the tasks.
        epochs: Metrics of each epoch, up to the kept one.
    """
    others = ", raise its weight, or set `training.task_weights`" if len(tasks) > 1 else ""
    for task in tasks if epochs else ():
        auc = epochs[-1][f"val_{task}_auc"]
        entropies = [epoch.get(f"val_{task}_normalised_entropy", 0.0) for epoch in epochs]
        if auc == 0.5:  # equal scores, or a rare chance on few rows
            yield (
                f"Task {task!r} has an AUC of exactly 0.5, as if all rows had the same score: it "
                "has probably died. Lower `training.learning_rate` or a penalty, such as "
                f"`training.embeddings_l2`{others}."
            )
        elif auc < NO_ORDER and min(entropies) >= 1:
            yield (
                f"Task {task!r} has learned nothing: on the validation rows its logloss was never "
                f"below that of its constant rate, and its AUC is {auc:.3f}. Check its label, "
                f"train longer, or lower a penalty, such as `training.embeddings_l2`{others}."
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
