"""Assembles the training of a sequence model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.feed import Feed, Layout
from pipelines.pretraining.evaluated_histories import item_counts, read_histories
from pipelines.pretraining.experiment import (
    SequenceExperiment,
    build_objectives,
    build_sequence_model,
    seen_by_model,
)
from pipelines.pretraining.item_ranking import ModelScores, rank, rows_at_once
from pipelines.pretraining.schema import with_length
from pipelines.pretraining.sequence_options import SequenceTraining
from pipelines.pretraining.sequence_step import SequenceStep, trained_variables
from pipelines.storage.dataset import DataSplit
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.optimizer import LearningRate, make_optimizer
from pipelines.training.replica_step import replica_feeds
from pipelines.training.reporter import EpochReporter
from pipelines.training.tower_mode import TowerMode
from pipelines.training.train import OutputPaths, TrainingData, TrainingResult
from pipelines.training.trainer import Trainer
from pipelines.training.training_state import Saver
from pipelines.training.workers import find_workers
from recsys_attn.models import SequenceModel


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
        names = dict.fromkeys((self._options.monitor, f"hr@{self._options.places}"))
        numbers = "  ".join(f"{name.upper()} {metrics[f'val_{name}']:.4f}" for name in names)
        self.say(
            f"epoch {metrics['epoch']}/{self._options.epochs}  loss {metrics['loss']:.4f}  "
            f"validation {numbers}  {metrics['seconds']:.1f} s"
        )
        self.write(metrics)


def train_sequences(
    experiment: SequenceExperiment, data: TrainingData, output: OutputPaths, progress: Progress
) -> TrainingResult:
    """Trains the experiment's model, from the last checkpoint if there is one.

    Args:
        experiment: The experiment.
        data: The training and validation data, with the transforms of histories as the model sees
            them.
        output: The output folders.
        progress: Shows the rows done and each epoch's metrics.
    """
    workers = find_workers()  # before the table of the vocabulary
    fitted, item = data.fitted, experiment.data.item
    checkpoints = Checkpoints(output.checkpoints, experiment.training.keep_checkpoints)
    options = experiment.training
    if workers.is_chief:  # fails before any work
        checkpoints.prepare()
    keras.utils.set_random_seed(experiment.seed)
    keras.config.set_dtype_policy(options.precision)
    try:
        with workers.strategy.scope():
            model = build_sequence_model(experiment, seen_by_model(experiment, fitted.schema))
            objectives = build_objectives(experiment, model, fitted.schema)
            optimizer = make_optimizer(options, trained_variables(model, objectives))
        longer = with_length(fitted, experiment.max_length + 1)
        rows = Feed(DataSplit(data.folder / "train"), longer, None)
        feeds = replica_feeds(rows, options, experiment.seed, workers)
        counts, mode = item_counts(data.folder, fitted, item), TowerMode(None, False)
        with workers.strategy.scope():
            step = SequenceStep(model, objectives, optimizer, Layout.of(longer.schema), counts)
        saver = Saver(
            checkpoints,
            output.key,
            model,
            optimizer,
            options,
            feeds[0].shards,
            feeds[0].split.footers,
            mode,
            more=objectives,
        )
        done = Trainer(
            step,
            LearningRate(optimizer, options),
            feeds,
            options,
            saver,
            _validation(experiment, model, DataSplit(data.folder / "valid"), longer),
            SequenceReporter(progress, feeds[0].split.rows, options, output.logs),
            workers,
        ).run()
    finally:
        keras.config.set_dtype_policy("float32")
    return TrainingResult(model, done.epochs, done.versions, {}, mode, {}, [])


def _validation(
    experiment: SequenceExperiment, model: SequenceModel, split: DataSplit, fitted: FittedFeatures
) -> Callable[[], dict[str, Any]]:
    """Computes the metrics of the validation rows over the whole catalogue.

    Args:
        experiment: The experiment.
        model: The model.
        split: The validation rows.
        fitted: The transforms, of histories with one event more than the model sees.
    """
    options, scores = experiment.training, ModelScores(model)
    at = tuple(sorted({*experiment.evaluation.at, options.places}))
    filter_seen = experiment.evaluation.seen == "filtered"

    def validate() -> dict[str, Any]:
        users = rows_at_once(model.size)
        histories = read_histories(split, fitted, model.item, users, options.validation_rows)
        ranked = rank(histories, scores, at, model.size, filter_seen).metrics()
        metrics = {f"val_{name}": value for name, value in ranked.items()}
        return {**metrics, "val_monitored": metrics[f"val_{options.monitor}"]}

    return validate
