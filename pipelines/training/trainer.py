"""The training loop: steps, checkpoints, and a validation after each epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.common.artifacts import versions
from pipelines.experiment.loop_options import LoopOptions
from pipelines.feed import Feed, Position
from pipelines.training.fresh_tables import FreshTables
from pipelines.training.hard_negatives import HardNegatives
from pipelines.training.history import History
from pipelines.training.optimizer import LearningRate
from pipelines.training.replica_step import ReplicaStep, StepResult
from pipelines.training.reporter import EpochReporter
from pipelines.training.stopping import StopRequest, diverged, stop_request
from pipelines.training.training_state import Saver, TrainingProgress
from pipelines.training.workers import Workers

Metrics = dict[str, Any]


@dataclass(frozen=True)
class Trainer:
    """Trains on its feeds, from the last checkpoint if there is one.

    Args:
        step: Takes a training step.
        rate: Sets the learning rate.
        feeds: One feed for each replica of this worker.
        options: Training options.
        saver: Saves and loads the state.
        validate: Returns the metrics of an epoch, including `val_monitored`, and compares them
            with those of the best of its calls.
        reporter: Shows the progress.
        workers: The workers that train together.
        hard: Chooses among drawn candidates by the model; None keeps all.
        fresh: The tables of the start; None never goes back to them.
    """

    step: ReplicaStep
    rate: LearningRate
    feeds: Sequence[Feed]
    options: LoopOptions
    saver: Saver
    validate: Callable[[], Metrics]
    reporter: EpochReporter
    workers: Workers
    hard: HardNegatives | None = None
    fresh: FreshTables | None = None

    def run(self) -> TrainingProgress:
        """Trains to the end and restores the best weights."""
        progress = self._resumed()
        with stop_request() as stop:
            while not self._history(progress).finished:
                if not progress.epoch_is_done:
                    self._epoch(progress, stop)
                self._end_epoch(progress)
                if self.workers.any(stop.made):
                    self._obey(progress, stop)
        if progress.best_step not in (None, progress.step):
            best = self.saver.load(self.saver.checkpoints.at(progress.best_step))
            progress.versions = best.versions
        self.reporter.kept(self._history(progress))
        return progress

    def _epoch(self, progress: TrainingProgress, stop: StopRequest) -> None:
        """Takes the remaining steps of the epoch."""
        progress.go_on_with(versions())
        if self.fresh is not None and not progress.rows:
            self._renew_tables(self.fresh, progress)
        for result in self._steps(progress, stop):
            if not np.isfinite(result.loss):
                raise diverged(f"loss {result.loss} in epoch {progress.epoch + 1}")
            progress.loss += result.loss * result.rows
            progress.rows += result.rows
            if result.stop:
                self._save(progress)
                self._obey(progress, stop)
            every = self.options.checkpoint_every
            if every and progress.step % every == 0 and not progress.epoch_is_done:
                self._save(progress)

    def _renew_tables(self, fresh: FreshTables, progress: TrainingProgress) -> None:
        """Goes back to the best epoch once, and to the tables of the start in each epoch since."""
        turn = self._history(progress).turn
        if turn is None:
            return
        if turn == progress.epoch - 1 and progress.best_step is not None:
            self.saver.load(self.saver.checkpoints.at(progress.best_step))
            self.reporter.say("no better: from the best epoch on, ids are learned anew")
        fresh.restore()

    def _steps(self, progress: TrainingProgress, stop: StopRequest) -> Iterator[StepResult]:
        history = self._history(progress)
        self.reporter.start(progress.epoch, progress.rows)
        start = progress.position  # a checkpoint has the places of all shards
        streams = [feed.batches(_of_feed(feed, start)) for feed in self.feeds]
        waited, begin = progress.waited, time.perf_counter() - progress.seconds
        try:
            for batches in zip(*streams, strict=True):
                self.rate.set(history.rate(progress.step))
                with self.workers.together():
                    blocks = [self.hard(b) if self.hard else b.blocks for b in batches]
                    result = self.step(blocks, stop.made, history.penalty(progress.step))
                progress.step += 1
                progress.position = _of_worker([batch.position for batch in batches])
                progress.waited = waited + sum(stream.waited for stream in streams)
                progress.seconds = time.perf_counter() - begin
                self.reporter.advance(result.rows)
                yield result
        finally:
            for stream in streams:
                stream.close()

    def _end_epoch(self, progress: TrainingProgress) -> None:
        metrics: Metrics = {
            "epoch": len(progress.epochs) + 1,
            "loss": progress.loss / max(progress.rows, 1),
            **self.validate(),
            **self._learned_weights(),
            "seconds": progress.seconds,
            "rows_per_second": progress.rows / max(progress.seconds, 1e-9),
            "input_wait": progress.waited / max(progress.seconds, 1e-9),
        }
        better = History([*progress.epochs, metrics], self.options).better[-1]
        progress.end_epoch(metrics, better)
        self.reporter.finish(metrics)
        self._save(progress)

    def _learned_weights(self) -> Metrics:
        weights = self.step.task_weights
        by_task = weights.by_task() if weights.learned else {}
        return {f"weight_{task}": weight for task, weight in by_task.items()}

    def _obey(self, progress: TrainingProgress, stop: StopRequest) -> None:
        self.reporter.say(f"saved after step {progress.step:,}")
        stop.obey()

    def _history(self, progress: TrainingProgress) -> History:
        return History(progress.epochs, self.options)

    def _resumed(self) -> TrainingProgress:
        newest = self.saver.newest()
        if newest is None:
            if self.workers.is_chief and self.saver.checkpoints.newest:
                self.reporter.say(
                    "the checkpoints belong to another training; starting from scratch"
                )
                self.saver.checkpoints.clear()
            return TrainingProgress()
        progress = self.saver.load(newest)
        if progress.best_step is not None and "val_noise" in progress.epochs[-1]:
            self.saver.load(self.saver.checkpoints.at(progress.best_step))
            self.validate()  # the next epochs are compared with this one
            self.saver.load(newest)
        self.reporter.say(f"resuming after step {progress.step:,}, in epoch {progress.epoch + 1}")
        return progress

    def _save(self, progress: TrainingProgress) -> None:
        """Saves a checkpoint on the chief, with the places of all workers' shards."""
        places = self.workers.gathered(progress.position.places)
        if self.workers.is_chief:
            position = replace(progress.position, places=places)
            self.saver.save(replace(progress, position=position))


def _of_feed(feed: Feed, position: Position) -> Position:
    """The part of a position that belongs to a feed's shards."""
    places = position.places and tuple(position.places[shard] for shard in feed.shard_indices)
    return replace(position, places=places)


def _of_worker(positions: Sequence[Position]) -> Position:
    """Joins the positions of a worker's feeds."""
    places = tuple(place for position in positions for place in position.places)
    return replace(positions[0], places=places)
