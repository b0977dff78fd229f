"""Assembles a training: model, optimizer, feeds, checkpoints and reporter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.experiment.config import Experiment
from pipelines.experiment.training_options import TrainingOptions
from pipelines.features import FittedFeatures
from pipelines.features.unseen import train_lines
from pipelines.feed import (
    LENGTHS,
    TRAINING_CANDIDATES,
    Feed,
    ItemCatalogue,
    Layout,
    Negatives,
)
from pipelines.feed.mixing import shuffle_advice
from pipelines.scoring.microbatches import micro_batch_rows
from pipelines.storage.dataset import DataSplit
from pipelines.training.calibration import calibrate
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.dead_units import dead_experts, dead_tasks
from pipelines.training.encoder_from import own_rate, start_from
from pipelines.training.fresh_tables import FreshTables
from pipelines.training.hard_negatives import HardNegatives
from pipelines.training.history import History
from pipelines.training.input_dropout import InputDropout
from pipelines.training.model import build_model, check_same_rows, unread_features
from pipelines.training.optimizer import LearningRate, make_optimizer
from pipelines.training.pruned import check_pruned, pruned
from pipelines.training.replica_step import replica_feeds
from pipelines.training.reporter import TrainingReporter
from pipelines.training.step import TrainStep
from pipelines.training.task_weights import make_task_weights
from pipelines.training.teacher import Teacher, load_teacher
from pipelines.training.tower_mode import TowerMode, TowerTuner
from pipelines.training.trainer import Trainer
from pipelines.training.training_state import Saver, saved_tower
from pipelines.training.validation import Validation
from pipelines.training.warm_start import WarmStart
from pipelines.training.workers import Workers, find_workers
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema

LOGS = "tensorboard"


@dataclass(frozen=True)
class TrainingData:
    """The data of a training.

    Args:
        folder: Folder with the splits.
        request: Column of the request id; None: every row is a request.
        fitted: Schema and transforms.
    """

    folder: Path
    request: str | None
    fitted: FittedFeatures


@dataclass(frozen=True)
class OutputPaths:
    """The output folders of a training.

    Args:
        checkpoints: Folder of the checkpoints; training continues from the last one.
        logs: Folder of TensorBoard's logs; None writes none.
        key: Identifies the training; checkpoints with another key are ignored.
    """

    checkpoints: Path
    logs: Path | None
    key: str


class TrainingResult(NamedTuple):
    """The result of a training.

    Attributes:
        model: The model with its best weights.
        history: Metrics of each epoch.
        versions: Versions of the packages that trained these weights.
        calibration: Slope and offset of each task's logits.
        tower: The mode of the tower.
        pruned: With `training.prune`, the kept heads, experts and fields of all, the largest
            difference of a score before training, and with `prune_heads` which heads those are.
        warnings: Sentences about tasks and experts that have died.
        ensemble: The members of an ensemble, and their weights; None for one model.
    """

    model: RankingModel
    history: list[dict[str, Any]]
    versions: dict[str, str]
    calibration: dict[str, tuple[float, float]]
    tower: TowerMode
    pruned: dict[str, Any]
    warnings: list[str]
    ensemble: dict[str, Any] | None = None


class _Start(NamedTuple):
    """The model to train, its features, the result of its pruning, and what is new about it."""

    model: RankingModel
    fitted: FittedFeatures
    pruned: dict[str, Any]
    said: str


def train(
    experiment: Experiment, data: TrainingData, output: OutputPaths, progress: Progress
) -> TrainingResult:
    """Trains the experiment's model, from the last checkpoint if there is one.

    Args:
        experiment: The experiment.
        data: The training and validation data.
        output: The output folders.
        progress: Shows the rows done and each epoch's metrics.
    """
    options, workers = experiment.training, find_workers()
    checkpoints = Checkpoints(output.checkpoints, options.keep_checkpoints)
    if workers.is_chief:  # fails before any work
        checkpoints.prepare()
    fitted = data.fitted.without(experiment.model.exclude).with_tasks(experiment.tasks)
    keras.utils.set_random_seed(experiment.seed)
    keras.config.set_dtype_policy(options.precision)
    try:
        with workers.strategy.scope():
            model, fitted, facts, said = _start(experiment, data, fitted)
            encoder = own_rate(experiment.model.encoder_from, model)
            optimizer = make_optimizer(options, model.trainable_variables, encoder)
            teacher, read = _teacher(experiment, data, fitted)
        feeds = replica_feeds(
            _train_feed(experiment, data, read), options, experiment.seed, workers
        )
        reporter = _reporter(experiment, feeds[0], output, progress)
        with workers.strategy.scope():
            before = saved_tower(checkpoints, output.key)
            mode = _mode(experiment, model, feeds[0], workers, before, reporter)
            step = _step(experiment, model, optimizer, read, mode, teacher)
        saver = Saver(
            checkpoints,
            output.key,
            model,
            optimizer,
            options,
            feeds[0].shards,
            feeds[0].split.footers,
            mode,
            step.task_weights.variables,
        )
        sentences = list(_from_other_runs(said, options, saver, fitted))
        sentences += _advice(model, feeds[0], experiment, fitted) if workers.is_chief else []
        reporter.say(*sentences)
        calibration = model.calibration()
        model.calibrate({})  # the older run's is of other rows
        valid = Feed(DataSplit(data.folder / "valid"), fitted, data.request)
        done = Trainer(
            step,
            LearningRate(optimizer, options),
            feeds,
            options,
            saver,
            Validation(model, valid, model.schema.tasks, experiment.monitor),
            reporter,
            workers,
            _hard_negatives(experiment, model),
            FreshTables(saver) if options.fresh_tables else None,
        ).run()
        calibration = _calibration(model, valid, options, calibration)
        warnings = _warnings(model, valid, experiment, done.epochs) if workers.is_chief else []
        reporter.say(*warnings)
    finally:
        keras.config.set_dtype_policy("float32")
    return TrainingResult(model, done.epochs, done.versions, calibration, mode, facts, warnings)


def _reporter(
    experiment: Experiment, feed: Feed, output: OutputPaths, progress: Progress
) -> TrainingReporter:
    options = experiment.training
    return TrainingReporter(
        progress,
        _candidates(feed, options),
        options.epochs,
        [task.name for task in experiment.tasks],
        experiment.monitor,
        output.logs,
    )


def _teacher(
    experiment: Experiment, data: TrainingData, fitted: FittedFeatures
) -> tuple[Teacher | None, FittedFeatures]:
    """The teacher, and the features that are read for the model and its teacher."""
    if experiment.training.teacher is None:
        return None, fitted
    teacher = load_teacher(experiment.training.teacher, data.fitted, experiment.tasks)
    unread = teacher.unread(data.fitted, fitted.schema)
    return teacher, data.fitted.with_tasks(experiment.tasks).without(unread)


def _mode(
    experiment: Experiment,
    model: RankingModel,
    feed: Feed,
    workers: Workers,
    before: TowerMode | None,
    reporter: TrainingReporter,
) -> TowerMode:
    """Returns the tower's mode: of the options, of the last checkpoint, or the fastest."""
    options = experiment.training
    rows = micro_batch_rows(options.micro_batch_size, model.tower)
    default = TowerMode(rows, bool(options.jit_compile))
    is_set = options.jit_compile is not None or options.micro_batch_size is not None
    if is_set or workers.replicas > 1:
        return default
    if before is not None:
        return before
    settings = [experiment.model.model_dump(mode="json"), options.precision]
    return TowerTuner(model, feed, settings).fastest(default, reporter.say)


def _step(
    experiment: Experiment,
    model: RankingModel,
    optimizer: keras.optimizers.Optimizer,
    read: FittedFeatures,
    mode: TowerMode,
    teacher: Teacher | None,
) -> TrainStep:
    return TrainStep(
        model,
        optimizer,
        Layout.of(read.schema),
        mode.jit_compile,
        mode.micro_batch_size,
        _dropout(experiment, model, read),
        teacher,
        make_task_weights(experiment.training, model),
    )


def _dropout(experiment: Experiment, model: RankingModel, read: FittedFeatures) -> InputDropout:
    options, users = experiment.training, read.users
    of_state = [*experiment.data.made, *(users.features if users else ())]
    unseen = read.unseen if options.id_dropout is None else {}
    hidden = {name: of.hidden for name, of in unseen.items()}
    ids = options.id_dropout or 0.0
    return InputDropout(model.schema, hidden, ids, options.state_dropout, of_state)


def _advice(
    model: RankingModel, feed: Feed, experiment: Experiment, fitted: FittedFeatures
) -> list[str]:
    """Returns advice on what to change before the training."""
    late = train_lines(fitted.unseen) if experiment.training.id_dropout is None else ()
    return [*unread_features(model), *shuffle_advice(feed, experiment.tasks), *late]


def _warnings(
    model: RankingModel, valid: Feed, experiment: Experiment, epochs: list[dict[str, Any]]
) -> list[str]:
    """Sentences about tasks and experts that have died, of the kept epoch."""
    best = History(epochs, experiment.training).best
    until = [] if best is None else epochs[: best + 1]
    return [*dead_tasks(model.schema.tasks, until), *dead_experts(model, valid, experiment.seed)]


def _start(experiment: Experiment, data: TrainingData, fitted: FittedFeatures) -> _Start:
    run, encoder = experiment.training.prune, experiment.model.encoder_from
    if run is None:
        model, said = build_model(experiment, fitted.schema), ""
        check_same_rows(model, DataSplit(data.folder / "train"))
        if encoder is not None:
            model, said = start_from(encoder, model, fitted)
        return _Start(model, fitted, {}, said)
    valid = DataSplit(data.folder / "valid")
    result = pruned(run, experiment, fitted, valid)
    worst = check_pruned(result, fitted, valid, data.request)
    counts = {place: list(count) for place, count in result.kept.items()}
    heads = {str(place): numbers for place, numbers in result.heads.items()}
    facts = {"kept": counts, "largest_difference": worst, **({"heads": heads} if heads else {})}
    return _Start(result.model, result.fitted, facts, "")


def _from_other_runs(
    said: str, options: TrainingOptions, saver: Saver, fitted: FittedFeatures
) -> Iterator[str]:
    """Starts from the run of `warm_start`; says what a new training starts from.

    A training that goes on is put there too, since its fresh tables are those of the start.
    """
    warm = options.warm_start
    sentences = [said] if said else []
    sentences += [] if warm is None else [WarmStart(warm).start(saver, fitted)]
    if saver.newest() is None:
        yield from sentences


def _calibration(
    model: RankingModel,
    valid: Feed,
    options: TrainingOptions,
    before: dict[str, tuple[float, float]],
) -> dict[str, tuple[float, float]]:
    """Calibrates the model; a pruned one that is not trained on keeps its numbers."""
    if not options.epochs:
        model.calibrate(before)
        return before
    return calibrate(model, valid) if options.calibrate else {}


def _train_feed(experiment: Experiment, data: TrainingData, fitted: FittedFeatures) -> Feed:
    return Feed(
        DataSplit(data.folder / "train"),
        fitted,
        data.request,
        candidates=TRAINING_CANDIDATES,
        lengths=LENGTHS,
        negatives=_negatives(experiment, fitted, data.fitted.schema),
    )


def _negatives(experiment: Experiment, fitted: FittedFeatures, whole: Schema) -> Negatives | None:
    """The draws of `training.negatives`."""
    options, items = experiment.training.negatives, experiment.data.items
    if options is None or items is None:
        return None
    if fitted.items is None:
        raise PipelineError("The features have no item table. Run `recsys-attn fit --force`.")
    if options.count >= len(fitted.items):
        raise PipelineError(
            f"`training.negatives.count`: expected fewer than the {len(fitted.items)} items of "
            f"`data.items`. Received: {options.count}."
        )
    catalogue = ItemCatalogue(fitted.items, fitted, items.unseen, whole)
    if options.by == "hard":
        return Negatives(catalogue, options.count * options.pool, "uniform", experiment.seed)
    return Negatives(catalogue, options.count, options.by, experiment.seed)


def _hard_negatives(experiment: Experiment, model: RankingModel) -> HardNegatives | None:
    options = experiment.training.negatives
    if options is None or options.by != "hard":
        return None
    return HardNegatives(model, experiment.tasks[0].name, options.count)


def _candidates(feed: Feed, options: TrainingOptions) -> int:
    """Candidates of an epoch, for the progress bar."""
    if options.negatives is None:
        return feed.split.rows
    return feed.split.rows + options.negatives.count * int(feed.counts.requests.sum())
