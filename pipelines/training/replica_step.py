"""A training step on every replica: their feeds, one batch each, and sums over all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import tensorflow as tf

from pipelines.experiment.loop_options import LoopOptions
from pipelines.feed import Arrays, Feed
from pipelines.training.task_weights import TaskWeights
from pipelines.training.workers import Workers


class StepResult(NamedTuple):
    """The result of a step, over all replicas."""

    loss: float  # before the update
    rows: int
    stop: bool  # whether any worker wants to stop


class ReplicaStep(ABC):
    """The base class of training steps, with one batch for each replica of this worker.

    Args:
        task_weights: The weights of the tasks' losses.
    """

    def __init__(self, task_weights: TaskWeights) -> None:
        self.task_weights = task_weights
        self._strategy = tf.distribute.get_strategy()
        self._functions: dict[Any, Callable[..., tf.Tensor]] = {}

    def __call__(
        self, batches: Sequence[Arrays], stop: bool = False, penalty: float = 1.0
    ) -> StepResult:
        """Takes the step.

        Args:
            batches: Blocks of one batch for each replica of this worker.
            stop: Whether this worker wants to stop.
            penalty: Factor of the penalties that the layers of a ranking model add.
        """
        with self._strategy.scope():
            tensors = [self._tensors(batch) for batch in batches]
            scalars = tf.constant(float(stop)), tf.constant(penalty, "float32")
            result = self._function(tensors)(tensors, *scalars)
        loss, rows, wishes = result.numpy()
        return StepResult(float(loss), round(rows), bool(wishes > 0))

    def _function(self, batches: Sequence[Any]) -> Callable[..., tf.Tensor]:
        """The step as a graph. Nothing in it branches on a tensor, so AutoGraph only costs time."""
        key = tuple(map(self._length, batches))
        if key not in self._functions:
            signature = [[*map(self._specs, batches)], tf.TensorSpec([]), tf.TensorSpec([])]
            self._functions[key] = tf.function(
                self._on_replicas, autograph=False, input_signature=signature
            )
        return self._functions[key]

    @abstractmethod
    def _tensors(self, blocks: Arrays) -> Any:
        """The tensors of a batch."""

    @abstractmethod
    def _length(self, batch: Any) -> int | None:
        """The length for which a batch has a trace of its own, None if one trace takes all."""

    @abstractmethod
    def _specs(self, batch: Any) -> Any:
        """The types and shapes of all batches of the length of this one."""

    def _on_replicas(
        self, batches: Sequence[Any], stop: tf.Tensor, penalty: tf.Tensor
    ) -> tf.Tensor:
        batch = batches[0]
        if len(batches) > 1:
            batch = self._strategy.experimental_distribute_values_from_function(
                lambda context: batches[context.replica_id_in_sync_group % len(batches)]
            )
        results = self._strategy.run(self._replica, args=(batch, stop, penalty))
        return self._strategy.experimental_local_results(results)[0]

    @abstractmethod
    def _replica(self, batch: Any, stop: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
        """Takes the step on one replica; returns loss, rows and wishes to stop of all, `(3,)`."""

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        """The sum over all replicas."""
        if self._strategy.num_replicas_in_sync == 1:
            return x
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)


def replica_feeds(feed: Feed, options: LoopOptions, seed: int, workers: Workers) -> list[Feed]:
    """Returns one feed for each replica of this worker, with its shards of the rows.

    Args:
        feed: All train rows.
        options: The options of the training.
        seed: Seed of the order of rows.
        workers: The workers that train together.
    """
    shards = options.shards or workers.replicas
    requests = int(feed.counts.requests.sum())
    shared = replace(
        feed,
        batch_size=options.batch_of(requests // shards),
        seed=seed,
        shuffle_rows=options.shuffle_rows,
        shards=shards,
        shard_indices=tuple(range(shards)),
    )
    return [replace(shared, shard_indices=indices) for indices in workers.shards(shards)]
