"""Exact metrics of a model on the validation split."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.feed import Feed
from pipelines.metrics import auc_by_class, logloss
from pipelines.scoring.scorer import Scorer
from pipelines.training.stopping import diverged
from recsys_attn.models import RankingModel


class Validation:
    """AUC and logloss of every task, and the monitored AUC.

    Args:
        model: The model.
        feed: The validation split.
        monitor: Task whose AUC is monitored; None: the mean of all tasks.
    """

    def __init__(self, model: RankingModel, feed: Feed, monitor: str | None) -> None:
        self._scorer = Scorer(model)
        self._feed = feed
        self._monitor = monitor

    def __call__(self) -> dict[str, Any]:
        tasks: dict[str, _Task] = {}
        for labels, scores in self._scorer.labelled(self._feed):
            for name, label in labels.items():
                if not np.isfinite(scores[name]).all():
                    raise diverged(f"scores of {name!r} are not finite")
                tasks.setdefault(name, _Task()).add(label, scores[name])
        metrics: dict[str, Any] = {}
        for name, task in tasks.items():
            metrics[f"val_{name}_auc"] = task.auc()
            metrics[f"val_{name}_logloss"] = task.logloss()
        aucs = [metrics[f"val_{name}_auc"] for name in tasks]
        decides = metrics[f"val_{self._monitor}_auc"] if self._monitor else float(np.mean(aucs))
        return {**metrics, "val_auc": decides}


class _Task:
    """One task's scores by label, which an exact AUC needs, and its losses."""

    def __init__(self) -> None:
        self._by_label: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self._losses: list[float] = []  # losses of batches times their rows
        self._rows = 0

    def add(self, labels: np.ndarray, scores: np.ndarray) -> None:
        for label, kept in enumerate(self._by_label):
            kept.append(scores[labels == label])
        known = ~np.isnan(labels)
        rows = int(np.count_nonzero(known))
        if rows:
            self._losses.append(logloss(labels[known], scores[known]) * rows)
            self._rows += rows

    def auc(self) -> float:
        negative, positive = map(np.concatenate, self._by_label)
        return auc_by_class(positive, negative)

    def logloss(self) -> float:
        return sum(self._losses) / self._rows if self._rows else np.nan
