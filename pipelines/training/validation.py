"""Exact metrics of a model on the validation split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.experiment.monitor import CHANCE, Monitor
from pipelines.feed import Feed
from pipelines.metrics import MeansAtK, logloss
from pipelines.metrics.cluster_sums import Influence
from pipelines.metrics.intervals import Z, influence_of, interval_of
from pipelines.metrics.probability import entropy_ratio
from pipelines.metrics.ranked import Ranked
from pipelines.scoring.scorer import Scorer
from pipelines.training.stopping import diverged
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task


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

    Of monitored AUCs also the noise: the standard error of the difference to the best earlier call,
    whose requests are the same.

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
        self._best: Influence | None = None  # the monitored number, and how requests move it

    def __call__(self) -> dict[str, Any]:
        by_task, metrics, requests = self._measured()
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
        noise = self._noise(by_task, metrics, monitored, requests)
        return {**metrics, "val_learned": learned, "val_monitored": monitored, **noise}

    def _measured(self) -> tuple[dict[str, _TaskMetrics], dict[str, Any], int]:
        """The rows of each task, their metrics, and the number of requests."""
        by_task = {task.name: _TaskMetrics(task, self._monitor.places) for task in self._tasks}
        done = 0
        for labels, scores, requests in self._scorer.labelled(self._feed):
            for name, label in labels.items():
                if not np.isfinite(scores[name]).all():
                    raise diverged(f"scores of {name!r} are not finite")
                by_task[name].add(label, scores[name], done + requests)
            done += int(requests.max(initial=-1)) + 1
        metrics = {
            f"val_{name}_{metric}": value
            for name, task in by_task.items()
            for metric, value in task.metrics().items()
        }
        return by_task, metrics, done

    def _noise(
        self,
        by_task: Mapping[str, _TaskMetrics],
        metrics: Mapping[str, Any],
        monitored: float,
        requests: int,
    ) -> dict[str, float]:
        """The noise of the difference to the best call, which this one may become."""
        if self._monitor.ranked or requests < 2 or not np.isfinite(monitored):
            return {}
        weights = self._monitor.weights(metrics)
        moved = sum(
            (weight * by_task[task].moved(requests) for task, weight in weights.items()),
            start=np.zeros(requests),
        )
        best = self._best
        if best is None or monitored > best[0]:
            self._best = monitored, moved
        if best is None:
            return {"val_noise": 0.0}
        return {"val_noise": interval_of(monitored - best[0], moved - best[1]).error}


class _TaskMetrics:
    """One task's labelled rows, which an exact AUC needs, its losses and its ranked requests."""

    def __init__(self, task: Task, places: int) -> None:
        options = task.loss_options
        self._has_chance = options.has_probabilities  # else AUC over all requests says little
        self._has_logloss = options.has_probabilities and not options.needs_calibration
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._losses: list[float] = []  # losses of batches times their rows
        self._top = MeansAtK([places])

    def add(self, labels: np.ndarray, scores: np.ndarray, requests: np.ndarray) -> None:
        known = ~np.isnan(labels)
        self._parts.append((labels[known], scores[known], requests[known]))
        rows = int(np.count_nonzero(known))
        if rows and self._has_logloss:
            self._losses.append(logloss(labels[known], scores[known]) * rows)
        self._top.add(labels, scores, requests)

    @cached_property
    def _ranked(self) -> Ranked:
        labels, scores, _ = map(np.concatenate, zip(*self._parts, strict=True))
        return Ranked.of(labels, scores)

    def moved(self, requests: int) -> np.ndarray:
        """How far each request moves the AUC, `(requests,)`."""
        codes = np.concatenate([part[2] for part in self._parts])
        return influence_of(self._ranked, codes, requests)[1]

    def metrics(self) -> dict[str, float]:
        values = {"auc": self._ranked.auc}
        positives, negatives = self._ranked.counts.totals
        if self._has_chance and positives and negatives:
            values[CHANCE] = auc_of_chance(positives, negatives)
        if self._has_logloss:
            rows = positives + negatives
            values["logloss"] = sum(self._losses) / rows if rows else np.nan
            if positives and negatives:
                values["normalised_entropy"] = entropy_ratio(values["logloss"], positives / rows)
        at_k = self._top.metrics().items()
        return values | {name: value for name, value in at_k if value is not None}
