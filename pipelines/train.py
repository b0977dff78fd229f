"""Trains a ranking model on a data split."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.config import Experiment, TrainingOptions
from pipelines.data import DataSplit
from pipelines.dataset import PADDED_CANDIDATES, TRAINING_CANDIDATES, RequestDataset
from pipelines.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.metrics import auc, logloss
from pipelines.progress import Progress
from pipelines.scoring import Scorer
from recsys_attn import models
from recsys_attn.losses import CandidateCrossentropy
from recsys_attn.models import RankingModel
from recsys_attn.schema import RESERVED_IDS, Schema

MODEL_FILE = "model.keras"
LOGS = "tensorboard"


def train(
    experiment: Experiment,
    data: Path,
    request: str | None,
    fitted: FittedFeatures,
    logs: Path,
    progress: Progress,
) -> tuple[RankingModel, list[dict[str, Any]]]:
    """Fits the experiment's model; returns it with its best weights, and a dict per epoch.

    Args:
        experiment: What to train.
        data: Folder with the splits.
        request: Column of the request's id; None: every row is a request.
        fitted: Schema and transforms.
        logs: Folder that TensorBoard's logs are written to.
        progress: Told the rows done and each epoch's metrics.
    """
    options = experiment.training
    keras.utils.set_random_seed(experiment.seed)
    fitted = fitted.without(experiment.model.exclude)
    keras.config.set_dtype_policy(options.precision)
    try:
        model = build_model(experiment, fitted.schema)
        compile_model(model, options)
        training = _dataset(experiment, data / "train", request, fitted, experiment.seed)
        validation = _dataset(experiment, data / "valid", request, fitted, None)
        watch = _Epochs(training, validation, experiment, progress)
        callbacks = [watch, *_callbacks(options, logs)]
        _fit(model, training, options.epochs, callbacks)
    finally:
        keras.config.set_dtype_policy("float32")
    return model, watch.history


def _fit(
    model: RankingModel,
    training: RequestDataset,
    epochs: int,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    with warnings.catch_warnings():
        # How many batches an epoch has is known when it ends; Keras takes that for a mistake.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        try:
            model.fit(
                training.tensorflow(),
                epochs=epochs,
                callbacks=callbacks,
                shuffle=False,  # the dataset has its own order
                verbose=0,
            )
        except Exception as error:
            raise training.failure or error from None


def check_model(experiment: Experiment) -> None:
    """Builds the model with the smallest tables: its arguments are wrong before any work."""
    sizes = {feature.name: RESERVED_IDS + 1 for feature in experiment.features}
    build_model(experiment, experiment.model_schema.with_sizes(sizes))


def build_model(experiment: Experiment, schema: Schema) -> RankingModel:
    """The model that the experiment names, for the fitted schema."""
    regularizer = None
    if experiment.training.embeddings_l2:
        regularizer = keras.regularizers.L2(experiment.training.embeddings_l2)
    build = models.get(experiment.model.name)
    try:
        return build(schema, embeddings_regularizer=regularizer, **experiment.model.arguments)
    except (TypeError, ValueError) as error:
        reason = str(error).removesuffix(".")
        raise PipelineError(
            f"The model {experiment.model.name!r} cannot be built: {reason}."
        ) from None


def compile_model(model: RankingModel, options: TrainingOptions) -> None:
    """Optimizer, loss per task and their weights."""
    optimizers = {
        "adam": keras.optimizers.Adam,
        "adagrad": keras.optimizers.Adagrad,
        "sgd": keras.optimizers.SGD,
    }
    model.compile(
        optimizer=optimizers[options.optimizer](
            options.learning_rate, weight_decay=options.weight_decay or None
        ),
        loss={task.name: CandidateCrossentropy() for task in model.schema.tasks},
        loss_weights={task.name: task.weight for task in model.schema.tasks},
        jit_compile=options.jit_compile,
    )


def _dataset(
    experiment: Experiment,
    folder: Path,
    request: str | None,
    fitted: FittedFeatures,
    seed: int | None,
) -> RequestDataset:
    return RequestDataset(
        DataSplit(folder),
        fitted,
        request,
        experiment.training.batch_size,
        seed=seed,
        shuffle_row_groups=experiment.training.shuffle_row_groups,
        candidates=PADDED_CANDIDATES if seed is None else TRAINING_CANDIDATES,
    )


def _callbacks(options: TrainingOptions, logs: Path) -> list[keras.callbacks.Callback]:
    callbacks = [
        keras.callbacks.TensorBoard(str(logs), write_graph=False, profile_batch=0),
        keras.callbacks.EarlyStopping(
            "val_auc",
            mode="max",
            min_delta=1e-5,
            patience=options.patience,
            restore_best_weights=True,
        ),
    ]
    if options.learning_rate_decay < 1:
        callbacks.append(
            keras.callbacks.LearningRateScheduler(
                lambda epoch, rate: rate * options.learning_rate_decay if epoch else rate
            )
        )
    if options.reduce_on_plateau < 1:
        callbacks.append(
            keras.callbacks.ReduceLROnPlateau(
                "val_auc", mode="max", factor=options.reduce_on_plateau, patience=0, min_delta=1e-5
            )
        )
    return callbacks


class _Epochs(keras.callbacks.Callback):
    """Progress, the order of the rows, and exact validation metrics for each epoch.

    It comes first among the callbacks: those after it read the metrics it adds to the logs.
    """

    def __init__(
        self,
        training: RequestDataset,
        validation: RequestDataset,
        experiment: Experiment,
        progress: Progress,
    ) -> None:
        super().__init__()
        self.history: list[dict[str, Any]] = []
        self._training = training
        self._validation = validation
        self._monitor = experiment.training.monitor
        self._progress = progress
        self._rows = training.split.rows
        self._total = experiment.training.epochs

    def on_train_begin(self, logs: Any = None) -> None:
        self._scorer = Scorer(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._training.epoch = epoch
        self._advance = self._progress.start(f"epoch {epoch + 1}/{self._total}", self._rows)
        self._seen = 0
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        read = self._training.rows_read
        self._advance(read - self._seen)
        self._seen = read

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seconds = time.perf_counter() - self._begin
        labels, scores = self._scorer.score_labelled(self._validation)
        if not all(np.isfinite(score).all() for score in (logs["loss"], *scores.values())):
            raise PipelineError(
                f"Training diverged in epoch {epoch + 1}: loss {logs['loss']}. Lower "
                "`training.learning_rate`."
            )
        metrics = {"epoch": epoch + 1, "loss": float(logs["loss"])}
        for task, label in labels.items():
            known = ~np.isnan(label)
            metrics[f"val_{task}_auc"] = auc(label[known], scores[task][known])
            metrics[f"val_{task}_logloss"] = logloss(label[known], scores[task][known])
        aucs = [metrics[f"val_{task}_auc"] for task in labels]
        logs.update({key: value for key, value in metrics.items() if key != "epoch"})
        logs["val_auc"] = metrics[f"val_{self._monitor}_auc"] if self._monitor else np.mean(aucs)
        self.history.append({**metrics, "rows_per_second": self._rows / seconds})
        self._print(list(labels))

    def _print(self, tasks: list[str]) -> None:
        """One line for the epoch and one per task, which fit a narrow terminal."""
        epoch = self.history[-1]
        self._progress.finish(
            f"epoch {epoch['epoch']}/{self._total}  loss {epoch['loss']:.4f}  "
            f"{epoch['rows_per_second']:,.0f} rows/s"
        )
        width = max(map(len, tasks))
        for task in tasks:
            auc, logloss = epoch[f"val_{task}_auc"], epoch[f"val_{task}_logloss"]
            self._progress.finish(f"  {task:{width}}  AUC {auc:.4f}  logloss {logloss:.4f}")
