"""Exact metrics of a model on the validation split."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.feed import Feed
from pipelines.metrics import auc, logloss
from pipelines.scoring import Scorer
from pipelines.training.stopping import diverged
from recsys_attn.models import RankingModel


class Validation:
    """AUC and logloss of every task, and the AUC that decides which epoch is the best.

    Args:
        model: Whose scores are measured.
        feed: The split, in the order of its files.
        monitor: Task whose AUC decides; the mean of all tasks' where None.
    """

    def __init__(self, model: RankingModel, feed: Feed, monitor: str | None) -> None:
        self._scorer = Scorer(model)
        self._feed = feed
        self._monitor = monitor

    def __call__(self) -> dict[str, Any]:
        labels, scores = self._scorer.score_labelled(self._feed)
        metrics: dict[str, Any] = {}
        for task, label in labels.items():
            known = ~np.isnan(label)
            if not np.isfinite(scores[task]).all():
                raise diverged(f"scores of {task!r} are not finite")
            metrics[f"val_{task}_auc"] = auc(label[known], scores[task][known])
            metrics[f"val_{task}_logloss"] = logloss(label[known], scores[task][known])
        aucs = [metrics[f"val_{task}_auc"] for task in labels]
        decides = metrics[f"val_{self._monitor}_auc"] if self._monitor else float(np.mean(aucs))
        return {**metrics, "val_auc": decides}
