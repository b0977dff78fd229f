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


@dataclass(frozen=True)
class Monitor:
    """The mean of one metric of each monitored task; higher is better.

    Args:
        metrics: Name of the metric, such as `auc` or `ndcg@10`, by task.
    """

    metrics: Mapping[str, str]

    @classmethod
    def of(cls, text: str | None, tasks: Sequence[Task]) -> Self:
        """Reads `training.monitor`.

        Args:
            text: A task (its AUC), a metric (the mean of all tasks) or `task/metric`. None: the
                mean over all tasks of AUC, or of NDCG@10 where the loss gives no probabilities.
            tasks: The tasks.

        Raises:
            ValueError: It names neither a task nor a metric.
        """
        names = [task.name for task in tasks]
        if text is None:
            default = f"ndcg@{PLACES}"
            return cls({t.name: _AUC if t.has_probabilities else default for t in tasks})
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
        values = [metrics[f"val_{task}_{metric}"] for task, metric in self.metrics.items()]
        return float(sum(values) / len(values))

    def __str__(self) -> str:
        """The metric in words: `AUC of click`, `mean NDCG@10`."""
        labels = {task: metric.upper() for task, metric in self.metrics.items()}
        if len(labels) == 1:
            return " of ".join(reversed(*labels.items()))
        if len(set(labels.values())) == 1:
            return f"mean {next(iter(labels.values()))}"
        return f"mean of {', '.join(f'{metric} ({task})' for task, metric in labels.items())}"
