"""The validation metric that decides which epoch is the best: `training.monitor`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pipelines.metrics import AT_K
from recsys_attn.schema import Task
from serving.state.errors import did_you_mean

PLACES = 10  # k of the metrics at k in validation, unless the monitor names another
_AT_K = re.compile(rf"({'|'.join(AT_K)})@([1-9]\d{{0,5}})")
_AUC = "auc"
CHANCE = "auc_of_chance"  # upper end of the 95 % interval of the AUC of random scores


@dataclass(frozen=True)
class Monitor:
    """The mean of one metric of each monitored task; higher is better.

    Args:
        metrics: Name of the metric, such as `auc` or `ndcg@10`, by task.
        by_precision: Whether each AUC counts by the inverse of its variance for random scores,
            `12 P N / (P + N + 1)` with P positives and N negatives: the same in every epoch.
    """

    metrics: Mapping[str, str]
    by_precision: bool = False

    @classmethod
    def of(cls, text: str | None, tasks: Sequence[Task]) -> Self:
        """Reads `training.monitor`.

        Args:
            text: A task (its AUC), a metric (the plain mean of all tasks) or `task/metric`. None:
                the mean AUC of all tasks by precision; or, where a loss gives no probabilities,
                the plain mean of its NDCG@10 and the AUC of the others.
            tasks: The tasks.

        Raises:
            ValueError: It names neither a task nor a metric.
        """
        names = [task.name for task in tasks]
        if text is None:
            default = f"ndcg@{PLACES}"
            metrics = {t.name: _AUC if t.has_probabilities else default for t in tasks}
            return cls(metrics, len(tasks) > 1 and set(metrics.values()) == {_AUC})
        if text in names:
            return cls({text: _AUC})
        task, separator, metric = text.rpartition("/")
        if (task in names or not separator) and (metric == _AUC or _AT_K.fullmatch(metric)):
            return cls(dict.fromkeys([task] if separator else names, metric))
        examples = [*names, _AUC, "ndcg@10", f"{names[0]}/ndcg@10"]
        raise ValueError(
            f"`training.monitor` names {text!r}; expected a task (its AUC), a metric (`auc`, or "
            f"{', '.join(f'`{name}`' for name in AT_K)} with their places, such as `ndcg@10`: the "
            f"mean of all tasks), or both, such as `{names[0]}/ndcg@10`. Tasks: "
            f"{', '.join(map(repr, names))}.{did_you_mean(text, examples)}"
        )

    @property
    def places(self) -> int:
        """k of the metrics at k in validation."""
        matches = [_AT_K.fullmatch(metric) for metric in self.metrics.values()]
        return next((int(match[2]) for match in matches if match), PLACES)

    @property
    def ranked(self) -> list[str]:
        """Tasks of which a metric at k is monitored."""
        return [task for task, metric in self.metrics.items() if metric != _AUC]

    def value(self, metrics: Mapping[str, Any]) -> float:
        """The monitored number, from the metrics of an epoch."""
        weights = self.weights(metrics)
        return float(
            sum(w * metrics[f"val_{task}_{self.metrics[task]}"] for task, w in weights.items())
        )

    def weights(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """The weight of each task in the monitored number; they sum to 1.

        A task of one class has no AUC, and by precision no weight.

        Args:
            metrics: The metrics of an epoch.
        """
        weights = dict.fromkeys(self.metrics, 1.0)
        if self.by_precision:
            chances = {task: metrics.get(f"val_{task}_{CHANCE}") for task in self.metrics}
            precisions = {t: (c - 0.5) ** -2 for t, c in chances.items() if c is not None}
            weights = precisions or weights
        whole = sum(weights.values())
        return {task: weight / whole for task, weight in weights.items()}

    def __str__(self) -> str:
        """The metric in words: `AUC of click`, `mean NDCG@10`, `weighted AUC`."""
        labels = {task: metric.upper() for task, metric in self.metrics.items()}
        if len(labels) == 1:
            return " of ".join(reversed(*labels.items()))
        if len(set(labels.values())) == 1:
            kind = "weighted" if self.by_precision else "mean"
            return f"{kind} {next(iter(labels.values()))}"
        return f"mean of {', '.join(f'{metric} ({task})' for task, metric in labels.items())}"
