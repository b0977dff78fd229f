"""What a person sees of a training: a bar, a few lines an epoch, and TensorBoard's curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from pipelines.common.progress import Progress


class TrainingReporter:
    """Shows a training's progress.

    Args:
        progress: Where it is printed.
        rows: RowMapping of an epoch.
        epochs: Most epochs.
        tasks: Names of the tasks.
        logs: Folder of TensorBoard's logs; None for none.
    """

    def __init__(
        self, progress: Progress, rows: int, epochs: int, tasks: list[str], logs: Path | None
    ) -> None:
        self._progress = progress
        self._rows = rows
        self._epochs = epochs
        self._tasks = tasks
        self._writer = None if logs is None else tf.summary.create_file_writer(str(logs))

    def start(self, epoch: int, rows: int) -> None:
        """An epoch begins, or goes on after so many rows."""
        self._advance = self._progress.start(f"epoch {epoch + 1}/{self._epochs}", self._rows)
        self._advance(rows)

    def advance(self, rows: int) -> None:
        """So many rows more are done."""
        self._advance(rows)

    def say(self, line: str) -> None:
        """A line for a person."""
        self._progress.finish(line)

    def finish(self, metrics: dict[str, Any]) -> None:
        """One line for the epoch and one per task, which fit a narrow terminal."""
        epoch = metrics["epoch"]
        self.say(
            f"epoch {epoch}/{self._epochs}  loss {metrics['loss']:.4f}  "
            f"{metrics['rows_per_second']:,.0f} rows/s"
        )
        width = max(map(len, self._tasks))
        for task in self._tasks:
            auc, logloss = metrics[f"val_{task}_auc"], metrics[f"val_{task}_logloss"]
            self.say(f"  {task:{width}}  AUC {auc:.4f}  logloss {logloss:.4f}")
        if self._writer is not None:
            with self._writer.as_default(step=epoch):
                for name, value in metrics.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()
