"""Reports the training of a sequence model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.common.progress import Progress
from pipelines.pretraining.options import SequenceTraining
from pipelines.training.reporter import EpochReporter


class SequenceReporter(EpochReporter):
    """Shows a bar for each epoch, and a line with the metrics of the validation rows.

    Args:
        progress: The console output.
        rows: Histories of an epoch.
        options: The training.
        logs: Folder of TensorBoard's logs; None writes none.
    """

    def __init__(
        self, progress: Progress, rows: int, options: SequenceTraining, logs: Path | None
    ) -> None:
        super().__init__(progress, rows, options.epochs, options.monitor, logs)
        self._options = options

    def finish(self, metrics: dict[str, Any]) -> None:
        """Prints one line for the epoch; writes TensorBoard's curves."""
        shown = dict.fromkeys((self._options.monitor, f"hr@{self._options.places}"))
        numbers = "  ".join(f"{name.upper()} {metrics[f'val_{name}']:.4f}" for name in shown)
        self.say(
            f"epoch {metrics['epoch']}/{self._options.epochs}  loss {metrics['loss']:.4f}  "
            f"validation {numbers}  {metrics['seconds']:.1f} s"
        )
        self.write(metrics)
