"""Assembles the training of a sequence model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.feed import Feed, Layout
from pipelines.pretraining.experiment import (
    SequenceExperiment,
    build_objectives,
    build_sequence_model,
    seen_by_model,
)
from pipelines.pretraining.histories import read_histories
from pipelines.pretraining.ranking import ModelScores, rank, rows_at_once
from pipelines.pretraining.reporter import SequenceReporter
from pipelines.pretraining.schema import with_length
from pipelines.pretraining.step import SequenceStep, trained_variables
from pipelines.storage.dataset import DataSplit
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.optimizer import LearningRate, make_optimizer
from pipelines.training.state import Saver
from pipelines.training.tower_mode import TowerMode
from pipelines.training.trainer import Trainer
from pipelines.training.workers import Workers
from recsys_attn.models import SequenceModel


class SequenceResult(NamedTuple):
    """The result of a training.

    Attributes:
        model: The model with its best weights.
        history: Metrics of each epoch.
        versions: Versions of the packages that trained these weights.
    """

    model: SequenceModel
    history: list[dict[str, Any]]
    versions: dict[str, str]


def train_sequences(
    experiment: SequenceExperiment,
    workers: Workers,
    data: Path,
    fitted: FittedFeatures,
    counts: np.ndarray,
    checkpoints: Checkpoints,
    key: str,
    logs: Path | None,
    progress: Progress,
) -> SequenceResult:
    """Trains the experiment's model, from the last checkpoint if there is one.

    Args:
        experiment: The experiment.
        workers: This worker, of `find_workers`.
        data: The folder with the splits.
        fitted: The transforms, of histories as the model sees them.
        counts: `(size,)`, how often each item id occurs in the train rows.
        checkpoints: The checkpoints; training continues from the last one.
        key: Identifies the training.
        logs: Folder of TensorBoard's logs; None writes none.
        progress: Shows the rows done and each epoch's metrics.
    """
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
        shards = options.shards or workers.replicas
        feeds = _feeds(experiment, DataSplit(data / "train"), longer, workers, shards)
        with workers.strategy.scope():
            step = SequenceStep(model, objectives, optimizer, Layout.of(longer.schema), counts)
        saver = Saver(
            checkpoints,
            key,
            model,
            optimizer,
            options,
            shards,
            feeds[0].split.footers,
            TowerMode(None, False),
            more=objectives,
        )
        done = Trainer(
            step,
            LearningRate(optimizer, options),
            feeds,
            options,
            saver,
            Validation(experiment, model, DataSplit(data / "valid"), longer),
            SequenceReporter(progress, feeds[0].split.rows, options, logs),
            workers,
        ).run()
    finally:
        keras.config.set_dtype_policy("float32")
    return SequenceResult(model, done.epochs, done.versions)


def _feeds(
    experiment: SequenceExperiment,
    split: DataSplit,
    fitted: FittedFeatures,
    workers: Workers,
    shards: int,
) -> list[Feed]:
    """One feed for each replica of this worker."""
    options = experiment.training
    return [
        Feed(
            split,
            fitted,
            None,
            options.batch_of(split.rows // shards),
            seed=experiment.seed,
            shuffle_rows=options.shuffle_rows,
            shards=shards,
            shard_indices=own,
        )
        for own in workers.shards(shards)
    ]


class Validation:
    """The metrics of the validation rows over the whole catalogue.

    Args:
        experiment: The experiment.
        model: The model.
        split: The validation rows.
        fitted: The transforms, of histories with one event more than the model sees.
    """

    def __init__(
        self,
        experiment: SequenceExperiment,
        model: SequenceModel,
        split: DataSplit,
        fitted: FittedFeatures,
    ) -> None:
        self._experiment = experiment
        self._model = model
        self._split = split
        self._fitted = fitted
        self._scores = ModelScores(model)

    def __call__(self) -> dict[str, Any]:
        options, model = self._experiment.training, self._model
        rows = rows_at_once(model.size)
        histories = read_histories(
            self._split, self._fitted, model.item, rows, options.validation_rows
        )
        at = tuple(sorted({*self._experiment.evaluation.at, options.places}))
        filter_seen = self._experiment.evaluation.seen == "filtered"
        found = rank(histories, self._scores, at, model.size, filter_seen).metrics()
        metrics = {f"val_{name}": value for name, value in found.items()}
        return {**metrics, "val_monitored": metrics[f"val_{options.monitor}"]}
