"""Exact metrics of a model on the validation split."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.experiment.monitor import Monitor
from pipelines.feed import Feed
from pipelines.metrics import MeansAtK, auc_by_class, logloss
from pipelines.metrics.intervals import Z
from pipelines.metrics.probability import entropy_ratio
from pipelines.scoring.scorer import Scorer
from pipelines.training.stopping import diverged
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task

CHANCE = "auc_of_chance"


def auc_of_chance(positives: int, negatives: int) -> float:
    """Returns the upper end of the 95 % interval of the AUC of random scores.

    Source: Mann & Whitney (1947): the deviation is `sqrt((P + N + 1) / (12 P N))`.
    """
    return 0.5 + Z * math.sqrt((positives + negatives + 1) / (12 * positives * negatives))


class Validation:
    """The metrics of every task, and the monitored one.

    AUC, and the upper end of the 95 % interval of that of random scores where the loss teaches
    probabilities; logloss where the scores are probabilities before they are calibrated, also over
    that of the constant rate (normalised entropy); HR, NDCG, MRR and MAP where requests have
    candidates to rank; and whether a monitored AUC is above that of random scores.

    Args:
        model: The model.
        feed: The validation split.
        tasks: The tasks.
        monitor: The metric that decides which epoch is the best.
    """

    def __init__(
        self, model: RankingModel, feed: Feed, tasks: tuple[Task, ...], monitor: Monitor
    ) -> None:
        self._scorer = Scorer(model)
        self._feed = feed
        self._tasks = tasks
        self._monitor = monitor

    def __call__(self) -> dict[str, Any]:
        by_task = {task.name: _TaskMetrics(task, self._monitor.places) for task in self._tasks}
        for labels, scores, requests in self._scorer.labelled(self._feed):
            for name, label in labels.items():
                if not np.isfinite(scores[name]).all():
                    raise diverged(f"scores of {name!r} are not finite")
                by_task[name].add(label, scores[name], requests)
        metrics = {
            f"val_{name}_{metric}": value
            for name, task in by_task.items()
            for metric, value in task.metrics().items()
        }
        learned = any(
            metric != "auc" or metrics[f"val_{task}_auc"] > metrics.get(f"val_{task}_{CHANCE}", 0.0)
            for task, metric in self._monitor.metrics.items()
        )
        try:
            monitored = self._monitor.value(metrics)
        except KeyError:
            raise PipelineError(
                f"`training.monitor`: {self._monitor} is not defined, as no validation request has "
                "a positive and a negative. Check `data.request`, or monitor another metric."
            ) from None
        return {**metrics, "val_learned": learned, "val_monitored": monitored}


class _TaskMetrics:
    """One task's scores by label, which an exact AUC needs, its losses and its ranked requests."""

    def __init__(self, task: Task, places: int) -> None:
        options = task.loss_options
        self._has_chance = options.has_probabilities  # else AUC over all requests says little
        self._has_logloss = options.has_probabilities and not options.needs_calibration
        self._by_label: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self._losses: list[float] = []  # losses of batches times their rows
        self._rows = 0
        self._top = MeansAtK([places])

    def add(self, labels: np.ndarray, scores: np.ndarray, requests: np.ndarray) -> None:
        for label, of_label in enumerate(self._by_label):
            of_label.append(scores[labels == label])
        known = ~np.isnan(labels)
        rows = int(np.count_nonzero(known))
        if rows and self._has_logloss:
            self._losses.append(logloss(labels[known], scores[known]) * rows)
            self._rows += rows
        self._top.add(labels, scores, requests)

    def metrics(self) -> dict[str, float]:
        negative, positive = map(np.concatenate, self._by_label)
        values = {"auc": auc_by_class(positive, negative)}
        if self._has_chance and len(positive) and len(negative):
            values[CHANCE] = auc_of_chance(len(positive), len(negative))
        if self._has_logloss:
            values["logloss"] = sum(self._losses) / self._rows if self._rows else np.nan
            if len(positive) and len(negative):
                rate = len(positive) / (len(positive) + len(negative))
                values["normalised_entropy"] = entropy_ratio(values["logloss"], rate)
        at_k = self._top.metrics().items()
        return values | {name: value for name, value in at_k if value is not None}
