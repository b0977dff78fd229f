"""What the epochs so far decide: which was the best, when to stop, and the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.experiment.config import TrainingOptions

_LEAST = 1e-5  # of an AUC, to count as better


@dataclass(frozen=True)
class History:
    """The epochs of a training, by their validation AUC.

    A function of plain data, so that a training that was killed goes on as if it had not been.

    Args:
        epochs: Metrics of each epoch.
        options: How to train.
    """

    epochs: Sequence[Mapping[str, Any]]
    options: TrainingOptions

    @property
    def aucs(self) -> list[float]:
        """The validation AUC that decides, by epoch."""
        return [epoch["val_auc"] for epoch in self.epochs]

    @property
    def better(self) -> list[bool]:
        """Which epochs were better than all before them."""
        best, found = float("-inf"), []
        for auc in self.aucs:
            found.append(auc - _LEAST > best)
            best = auc if found[-1] else best
        return found

    @property
    def best(self) -> int | None:
        """Number of the best epoch, from 0; None before the first."""
        return max((number for number, better in enumerate(self.better) if better), default=None)

    @property
    def finished(self) -> bool:
        """Whether no epoch is to follow."""
        if len(self.epochs) >= self.options.epochs:
            return True
        waited = len(self.epochs) - 1 - (self.best or 0)
        return len(self.epochs) > 1 and waited >= max(self.options.patience, 1)

    @property
    def overrun(self) -> bool:
        """Whether it went on though by these options no epoch was to follow."""
        earlier = (History(self.epochs[:n], self.options) for n in range(len(self.epochs)))
        return any(history.finished for history in earlier)

    def rate(self, step: int) -> float:
        """Share of the learning rate that a step takes.

        Args:
            step: How many steps came before it.
        """
        options = self.options
        worse = len(self.epochs) - sum(self.better)
        decayed = options.learning_rate_decay ** len(self.epochs)
        warm = min(1.0, (step + 1) / (options.warmup_steps + 1))
        cosine = 1.0
        if options.cosine_steps:
            gone = max(0, step - options.warmup_steps) / options.cosine_steps
            cosine = (1 + math.cos(math.pi * min(1.0, gone))) / 2
        return decayed * options.reduce_on_plateau**worse * warm * cosine
