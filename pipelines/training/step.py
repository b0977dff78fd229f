"""A training step: the gradients on every replica, and the optimizer's update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from pipelines.feed import Arrays, Layout
from pipelines.feed.tensors import block_specs, block_tensors
from pipelines.training.input_dropout import InputDropout
from pipelines.training.replica_step import ReplicaStep
from pipelines.training.task_weights import TaskWeights
from pipelines.training.teacher import Teacher
from pipelines.training.tower_gradient import TowerGradient
from recsys_attn.backend.sparse_gradients import compiled_sums, with_penalty
from recsys_attn.losses import task_loss
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

Blocks = Mapping[str, tf.Tensor]


class TrainStep(ReplicaStep):
    """Takes a step on one batch for each replica of this worker.

    The loss of a task is the mean over all known labels of the global batch, or over all its
    requests with a positive and a negative for a loss that teaches their order. So several replicas
    take the same step as one replica with their batches concatenated, but for dropout, statistics
    of a batch and the losses that layers add.

    Args:
        model: The model.
        optimizer: Built for the model's trainable variables.
        layout: Layout of the batches.
        jit_compile: Whether XLA compiles the tower. Lookups and their updates are never compiled,
            as XLA would make their gradients as large as the tables.
        micro_batch_size: Candidates that the tower computes at a time, forwards and backwards;
            None for the whole batch. See `TowerGradient`.
        dropout: Hides some of the inputs; None: none.
        teacher: Changes the labels by inputs and labels; None keeps them.
        task_weights: The weights of the tasks' losses; None for those of the tasks.
    """

    def __init__(
        self,
        model: RankingModel,
        optimizer: keras.optimizers.Optimizer,
        layout: Layout,
        jit_compile: bool = False,
        micro_batch_size: int | None = None,
        dropout: InputDropout | None = None,
        teacher: Teacher | None = None,
        task_weights: TaskWeights | None = None,
    ) -> None:
        super().__init__(task_weights or TaskWeights(model.schema.tasks))
        self._model = model
        self._optimizer = optimizer
        self._layout = layout
        self._tower = TowerGradient(
            model.tower,
            model.schema.tasks,
            optimizer.scale_loss,
            jit_compile,
            micro_batch_size,
            self.task_weights.shared,
        )
        self._dropout = dropout or InputDropout(model.schema)
        self._teacher = teacher

    def _tensors(self, blocks: Arrays) -> Blocks:
        return block_tensors(blocks)

    def _length(self, batch: Blocks) -> int:
        # One trace for each T: there are few, and layers are faster with a known T.
        return int(batch[CANDIDATE_MASK].shape[1])

    def _specs(self, batch: Blocks) -> dict[str, tf.TensorSpec]:
        """The specs of batches of one T; B is free: a last, smaller one needs no trace."""
        specs, length = block_specs(self._layout), self._length(batch)
        for name in specs.keys() - set(self._layout.blocks_of("context")):
            specs[name] = tf.TensorSpec([None, length, *specs[name].shape[2:]], specs[name].dtype)
        return specs

    def _on_replicas(
        self, batches: Sequence[Blocks], stop: tf.Tensor, penalty: tf.Tensor
    ) -> tf.Tensor:
        # With one candidate all batches but the last have the same number of requests.
        with compiled_sums(all(self._length(batch) == 1 for batch in batches)):
            return super()._on_replicas(batches, stop, penalty)

    def _replica(self, batch: Blocks, stop: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
        inputs, labels = self._layout.inputs(batch), self._layout.labels(batch)
        if self._teacher is not None:
            labels = self._teacher(inputs, labels)
        inputs = self._dropout(inputs, self._optimizer.iterations.value)
        own_candidates = tf.reduce_sum(tf.cast(inputs[CANDIDATE_MASK], "float32"))
        totals, candidates = self._global_counts(labels, own_candidates)
        embedding, tower = self._model.embedding, self._model.tower
        with tf.GradientTape(persistent=True) as tape:
            fields = embedding(inputs)
            penalties = [self._share(penalty) for penalty in embedding.losses]
            scaled = [self._optimizer.scale_loss(penalty) for penalty in penalties]
        weights, of_weights = self.task_weights.values(), self.task_weights.penalty()
        results = self._tower(fields, labels, totals, candidates, weights, penalty)
        tables = embedding.trainable_variables
        gradients = tape.gradient(results.leaves, tables, output_gradients=results.of_leaves)
        if scaled:
            gradients = [*map(with_penalty, gradients, tape.gradient(scaled, tables))]
        self._optimizer.apply(
            [*gradients, *results.of_variables], [*tables, *tower.trainable_variables]
        )
        if self.task_weights.learned:
            by_shared = None if results.of_shared is None else self._sum(results.of_shared)
            self.task_weights.update(self._sum(results.of_tasks), by_shared)
        loss = tf.add_n([results.loss, *penalties, self._share(of_weights)])
        return self._sum(tf.stack([loss, own_candidates, stop]))

    def _global_counts(
        self, labels: Blocks, candidates: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The divisors of the means of losses and penalties, over all replicas: at least 1."""
        tasks = self._model.schema.tasks
        known = [tf.logical_not(tf.math.is_nan(labels[task.name])) for task in tasks]
        counts = tf.stack(
            [
                tf.reduce_sum(task_loss(task.loss).counts(labels[task.name], mask))
                for task, mask in zip(tasks, known, strict=True)
            ]
            + [candidates]
        )
        *counts, candidates = tf.unstack(tf.maximum(self._sum(counts), 1.0))
        return dict(zip((task.name for task in tasks), counts, strict=True)), candidates

    def _share(self, penalty: tf.Tensor) -> tf.Tensor:
        return tf.cast(penalty, "float32") / self._strategy.num_replicas_in_sync
