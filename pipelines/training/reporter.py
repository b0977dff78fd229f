"""Reports a training: a progress bar, a few lines per epoch, and TensorBoard's curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from pipelines.common.progress import Progress
from pipelines.experiment.monitor import Monitor
from pipelines.training.history import History


class EpochReporter:
    """The base class of reporters: the bar of an epoch, TensorBoard's curves and the end.

    Args:
        progress: The console output.
        rows: Rows of an epoch.
        epochs: Maximum number of epochs.
        monitor: Name of the metric by which an epoch is kept.
        logs: Folder of TensorBoard's logs; None writes none.
    """

    def __init__(
        self, progress: Progress, rows: int, epochs: int, monitor: str, logs: Path | None
    ) -> None:
        self._progress = progress
        self._rows = rows
        self._epochs = epochs
        self._monitored = monitor
        self._writer = None if logs is None else tf.summary.create_file_writer(str(logs))

    def start(self, epoch: int, rows: int) -> None:
        """Starts the bar of an epoch, of which `rows` rows are done."""
        self._advance = self._progress.start(f"epoch {epoch + 1}/{self._epochs}", self._rows)
        self._advance(rows)

    def advance(self, rows: int) -> None:
        """Advances the bar."""
        self._advance(rows)

    def say(self, *lines: str) -> None:
        """Prints lines."""
        for line in lines:
            self._progress.finish(line)

    def finish(self, metrics: dict[str, Any]) -> None:
        """Reports the metrics of an epoch."""
        raise NotImplementedError(f"{type(self).__name__} must implement `finish`")

    def write(self, metrics: dict[str, Any]) -> None:
        """Writes TensorBoard's curves."""
        if self._writer is not None:
            with self._writer.as_default(step=metrics["epoch"]):
                for name, value in metrics.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()

    def kept(self, history: History) -> None:
        """Prints which epoch is kept, and why the training stopped."""
        epoch = history.kept(self._monitored)
        if epoch is not None:
            self.say(
                f"kept epoch {epoch['epoch']} of {epoch['epochs']}: {epoch['monitor']} "
                f"{epoch['value']:.4f} is the {history.options.keep} on the validation rows"
            )
            self.say(f"stopped {epoch['stopped']}")


class TrainingReporter(EpochReporter):
    """Shows a training's progress.

    Args:
        progress: The console output.
        rows: Rows of an epoch.
        epochs: Maximum number of epochs.
        tasks: Names of the tasks.
        monitor: The monitored metric.
        logs: Folder of TensorBoard's logs; None writes none.
    """

    def __init__(
        self,
        progress: Progress,
        rows: int,
        epochs: int,
        tasks: list[str],
        monitor: Monitor,
        logs: Path | None,
    ) -> None:
        super().__init__(progress, rows, epochs, str(monitor), logs)
        self._tasks = tasks
        self._monitor = monitor

    def finish(self, metrics: dict[str, Any]) -> None:
        """Prints one line for the epoch and one per task; writes TensorBoard's curves."""
        epoch = metrics["epoch"]
        self.say(
            f"epoch {epoch}/{self._epochs}  loss {metrics['loss']:.4f}  "
            f"{metrics['rows_per_second']:,.0f} rows/s"
        )
        width = max(map(len, self._tasks))
        for task in self._tasks:
            always = ("auc", "logloss", f"ndcg@{self._monitor.places}")
            names = dict.fromkeys((*always, self._monitor.metrics.get(task, "auc")))
            values = {name: metrics.get(f"val_{task}_{name}") for name in names}
            numbers = "  ".join(
                f"{_written(n)} {x:.4f}" for n, x in values.items() if x is not None
            )
            weight = metrics.get(f"weight_{task}")
            numbers += "" if weight is None else f"  weight {weight:.3f}"
            self.say(f"  {task:{width}}  validation {numbers}")
        self.write(metrics)


def _written(metric: str) -> str:
    return metric if metric == "logloss" else metric.upper()
