"""The best epoch, early stopping and the learning rate, from the metrics of the epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.experiment.loop_options import LoopOptions

_LEAST = 1e-5  # smallest improvement that counts


@dataclass(frozen=True)
class History:
    """Decisions that follow from the monitored metric of the epochs, of which higher is better.

    A function of plain data, so that a resumed training decides as an uninterrupted one.

    Args:
        epochs: Metrics of each epoch.
        options: Training options.
    """

    epochs: Sequence[Mapping[str, Any]]
    options: LoopOptions

    @property
    def monitored(self) -> list[float]:
        """The monitored metric of each epoch."""
        return [epoch["val_monitored"] for epoch in self.epochs]

    @property
    def better(self) -> list[bool]:
        """Whether each epoch was better than all before it; always with `keep = "last"`."""
        if self.options.keep == "last":
            return [True] * len(self.epochs)
        best, improved = float("-inf"), []
        for value in self.monitored:
            improved.append(value - _LEAST > best)
            best = value if improved[-1] else best
        return improved

    @property
    def best(self) -> int | None:
        """Index of the best epoch; None before the first."""
        return max((number for number, better in enumerate(self.better) if better), default=None)

    @property
    def worse(self) -> list[bool]:
        """Whether each epoch was no better than the ones before it.

        Epochs before the first that has learned something do not count: their metrics are chance.
        Nor do those before tables are learned anew.
        """
        turn = -1 if self.turn is None else self.turn
        return [worse and n > turn for n, worse in enumerate(self._no_better)]

    @property
    def _no_better(self) -> list[bool]:
        learned = [epoch.get("val_learned", True) for epoch in self.epochs]
        start = learned.index(True) if True in learned else len(learned)
        return [n >= start and not better for n, better in enumerate(self.better)]

    @property
    def turn(self) -> int | None:
        """Index of the epoch after which tables are learned anew; None before.

        It is the one at which patience has ended for the first time.
        """
        waited = 0
        for number, worse in enumerate(self._no_better if self.options.renews_tables else ()):
            waited = waited + worse if not self.better[number] else 0
            if number and waited >= self._patience:
                return number
        return None

    @property
    def _patience(self) -> int:
        return max(self.options.patience, 1)

    @property
    def since_best(self) -> list[bool]:
        """Of each epoch that counts after the best: whether it is worse by more than noise.

        The noise is one standard error of their difference on the same requests.
        """
        if self.best is None:
            return [worse for worse in self.worse if worse]
        start, value = self.best + 1, self.monitored[self.best]
        return [
            value - epoch["val_monitored"] >= epoch.get("val_noise", 0.0)
            for epoch, worse in zip(self.epochs[start:], self.worse[start:], strict=True)
            if worse
        ]

    @property
    def waited(self) -> float:
        """Epochs since the best; one that is level with it, within noise, counts half."""
        return sum(1.0 if worse else 0.5 for worse in self.since_best)

    @property
    def finished(self) -> bool:
        """Whether the training is complete."""
        if len(self.epochs) >= self.options.epochs:
            return True
        return len(self.epochs) > 1 and self.waited >= self._patience

    @property
    def reason(self) -> str:
        """Why a complete training stopped."""
        if len(self.epochs) >= self.options.epochs:
            return f"after the last epoch (`training.epochs` = {self.options.epochs})"
        waited = len(self.since_best)
        level = waited - sum(self.since_best)
        epochs = "1 epoch" if waited == 1 else f"{waited} epochs"
        number = "all" if level == waited else f"{level} of them"
        noise = f", {number} level with it within noise" if level else ""
        return f"after {epochs} without a better one{noise} (`training.patience`)"

    def kept(self, monitor: str) -> dict[str, Any] | None:
        """The kept epoch and why the training stopped, as manifest and report have them.

        Args:
            monitor: The monitored metric, in words.
        """
        if self.best is None:
            return None
        return {
            "epoch": self.best + 1,
            "epochs": len(self.epochs),
            "monitor": monitor,
            "value": self.monitored[self.best],
            "stopped": self.reason,
        }

    @property
    def overrun(self) -> bool:
        """Whether there are more epochs than these options allow."""
        earlier = (History(self.epochs[:n], self.options) for n in range(len(self.epochs)))
        return any(history.finished for history in earlier)

    def rate(self, step: int) -> float:
        """Factor of the learning rate of a step.

        Args:
            step: Number of steps before it.
        """
        options = self.options
        decayed = options.learning_rate_decay ** len(self.epochs)
        warm = min(1.0, (step + 1) / (options.warmup_steps + 1))
        cosine = 1.0
        if options.cosine_steps:
            share = max(0, step - options.warmup_steps) / options.cosine_steps
            cosine = (1 + math.cos(math.pi * min(1.0, share))) / 2
        return decayed * options.reduce_on_plateau ** sum(self.worse) * warm * cosine

    def penalty(self, step: int) -> float:
        """Factor of the penalties of layers in a step.

        Args:
            step: Number of steps before it.
        """
        first, last = self.options.penalty_steps
        return 1.0 if step >= last else max(0, step - first) / max(1, last - first)
