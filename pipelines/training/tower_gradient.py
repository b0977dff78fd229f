"""Loss and gradients of the tower, the dense part between the lookups and their updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pipelines.scoring.microbatches import (
    MicroBatchResult,
    micro_batch_requests,
    over_micro_batches,
)
from recsys_attn.blocks.norms import has_batch_statistics
from recsys_attn.layer import layers_in
from recsys_attn.losses import task_loss
from recsys_attn.models.interests import InterestExtractor
from recsys_attn.multitask.balance import Balance
from recsys_attn.schema import CANDIDATE_MASK, Task

Tensors = Mapping[str, tf.Tensor]

_SEED_STATE = "seed_generator_state"
_OF_BATCH = Balance, InterestExtractor  # their penalties compare requests
_LEAST_REQUESTS = 32
_SEEDS_APART = 7919


class TowerResult(NamedTuple):
    """A loss and its gradients."""

    loss: tf.Tensor
    of_tasks: tf.Tensor  # the loss of each task, without its weight
    leaves: list[tf.Tensor]  # floating tensors of the embedding's output
    of_leaves: Sequence[tf.Tensor]
    of_variables: Sequence[tf.Tensor]  # of the tower's trainable variables, in their order
    of_shared: tf.Tensor | None  # the gradient of each task's loss by `shared`, (tasks, numbers)


class TowerGradient:
    """Computes the loss of embedded requests and its gradients, in micro-batches.

    Losses and gradients are added up over the micro-batches, so they are those of the whole batch.
    A micro-batch has whole requests, as some losses compare a request's candidates. Dropout draws
    by micro-batch. A penalty that layers add is a mean over candidates, so that of a replica's
    micro-batch counts by its share of them. Layers with batch statistics, such as Dice, see one
    micro-batch ("ghost" batch normalisation, Hoffer et al. 2017, arXiv 1705.08741); their running
    means are updated by the first one. The candidates of a request are alike, so with such layers,
    and with penalties that compare requests, a micro-batch has at least 32 requests.

    Args:
        tower: Maps the embedding's output to logits by task.
        tasks: The tasks, for their losses.
        scale_loss: The optimizer's scaling of the loss.
        jit_compile: Whether XLA compiles it, forwards and backwards.
        rows: Candidates of a micro-batch; None for the whole batch.
        shared: Variables of the tower by which the gradient of each task's loss is computed too;
            a backward pass for each task.
    """

    def __init__(
        self,
        tower: keras.layers.Layer,
        tasks: Sequence[Task],
        scale_loss: Callable[[tf.Tensor], tf.Tensor],
        jit_compile: bool = False,
        rows: int | None = None,
        shared: Sequence[keras.Variable] = (),
    ) -> None:
        self._tower = tower
        self._tasks = tasks
        self._losses = [task_loss(task.loss) for task in tasks]
        ids = {id(variable) for variable in shared}
        variables = enumerate(tower.trainable_variables)
        self._shared = [place for place, variable in variables if id(variable) in ids]
        self._scale_loss = scale_loss
        self._rows = rows
        self._depends_on_batch = depends_on_batch(tower)
        self._compute: Callable[..., MicroBatchResult] = self._part
        if jit_compile:
            self._compute = tf.function(self._part, jit_compile=True, autograph=False)
        self._changed: set[str] = set()  # paths of the variables that a call changes

    def __call__(
        self,
        fields: Any,
        labels: Tensors,
        totals: Tensors,
        candidates: tf.Tensor | float,
        task_weights: tf.Tensor,
        penalty: tf.Tensor | float = 1.0,
    ) -> TowerResult:
        """The loss of a replica's requests and its gradients.

        Args:
            fields: The embedding's output.
            labels: (B, T) by task; NaN is unknown.
            totals: What the loss of each task is a mean over, of all replicas: known labels, or
                requests.
            candidates: Candidates of all replicas, without padding.
            task_weights: The weight of each task's loss.
            penalty: Factor of these penalties.
        """
        weights = [tf.convert_to_tensor(v.value) for v in self._tower.trainable_variables]
        state = [tf.convert_to_tensor(v.value) for v in self._tower.non_trainable_variables]
        leaves = [x for x in tf.nest.flatten(fields) if _has_gradient(x)]
        of_candidate = tf.convert_to_tensor(penalty) / candidates
        if self._rows is None:
            result = self._compute(
                fields, labels, totals, task_weights, of_candidate, weights, state
            )
        else:
            mask = fields[CANDIDATE_MASK]
            size = micro_batch_requests(mask, self._rows)
            if self._depends_on_batch:
                size = _even_parts(mask, tf.maximum(size, _LEAST_REQUESTS))

            def part(place: tf.Tensor, tensors: Any) -> MicroBatchResult:
                seeds = self._other_seeds(state, place)
                new = self._compute(*tensors, totals, task_weights, of_candidate, weights, seeds)
                return new._replace(firsts=self._other_seeds(new.firsts, -place))

            pieces = [tf.TensorSpec((None, *x.shape[1:]), x.dtype) for x in leaves]
            of_tasks, by_shared = tf.zeros(len(self._tasks)), self._zeros_by_shared(weights)
            sums = [tf.zeros(()), of_tasks, *by_shared, *map(tf.zeros_like, weights)]
            zero = MicroBatchResult(sums, state, pieces)
            result = over_micro_batches(part, (fields, labels), size, zero)
        for variable, value in zip(self._tower.non_trainable_variables, result.firsts, strict=True):
            if variable.path in self._changed:
                variable.assign(value)
        loss, of_tasks, *gradients = result.sums
        of_shared = gradients.pop(0) if self._shared else None
        return TowerResult(loss, of_tasks, leaves, result.pieces, gradients, of_shared)

    def _zeros_by_shared(self, weights: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        numbers = sum(weights[place].shape.num_elements() for place in self._shared)
        return [tf.zeros((len(self._tasks), numbers))] if self._shared else []

    def _other_seeds(self, state: Sequence[tf.Tensor], place: tf.Tensor) -> list[tf.Tensor]:
        """The state with other seeds, so that each micro-batch drops out other units."""
        return [
            value + _SEEDS_APART * tf.stack([tf.cast(place, value.dtype), 0])
            if variable.name == _SEED_STATE
            else value
            for variable, value in zip(self._tower.non_trainable_variables, state, strict=True)
        ]

    def _part(
        self,
        fields: Any,
        labels: Tensors,
        totals: Tensors,
        task_weights: tf.Tensor,
        of_candidate: tf.Tensor,
        weights: Sequence[tf.Tensor],
        state: Sequence[tf.Tensor],
    ) -> MicroBatchResult:
        """Loss and gradients of the weights, the new state, and gradients of the leaves."""
        leaves = [x for x in tf.nest.flatten(fields) if _has_gradient(x)]
        variables = [*self._tower.trainable_variables, *self._tower.non_trainable_variables]
        values = list(zip(variables, [*weights, *state], strict=True))
        with (
            tf.GradientTape(persistent=bool(self._shared)) as tape,
            keras.StatelessScope(values, collect_losses=True) as scope,
        ):
            tape.watch([*leaves, *weights])
            losses, penalties = self._losses_of(fields, labels, totals)
            share = of_candidate * tf.reduce_sum(tf.cast(fields[CANDIDATE_MASK], "float32"))
            weighted = tf.unstack(task_weights * tf.stack(losses))
            loss = tf.add_n([*(penalty * share for penalty in penalties), *weighted])
            scaled = self._scale_loss(loss)
        of_leaves, of_weights = tape.gradient(
            scaled, (leaves, list(weights)), unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        by_shared = self._by_shared(tape, losses, weights)
        # A product of one column loses its static shape, which the loop needs.
        of_weights = [tf.ensure_shape(g, w.shape) for g, w in zip(of_weights, weights, strict=True)]
        after = [scope.get_current_value(v) for v in self._tower.non_trainable_variables]
        changed = zip(self._tower.non_trainable_variables, after, state, strict=True)
        self._changed |= {v.path for v, new, old in changed if new is not old}
        sums = [loss, tf.stack(losses), *by_shared, *of_weights]
        return MicroBatchResult(sums, after, of_leaves)

    def _by_shared(
        self, tape: tf.GradientTape, losses: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """The gradient of each loss by the shared weights in one row, if there are some."""
        if not self._shared:
            return []
        shared, zero = [weights[place] for place in self._shared], tf.UnconnectedGradients.ZERO
        gradients = (tape.gradient(x, shared, unconnected_gradients=zero) for x in losses)
        return [tf.stack([tf.concat([tf.reshape(g, [-1]) for g in of], 0) for of in gradients])]

    def _losses_of(
        self, fields: Any, labels: Tensors, totals: Tensors
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The loss of each task, and the tower's penalties."""
        logits = self._tower(fields, training=True)
        penalties = [tf.cast(penalty, "float32") for penalty in self._tower.losses]
        losses = []
        for task, loss in zip(self._tasks, self._losses, strict=True):
            label = labels[task.name]
            known = tf.logical_not(tf.math.is_nan(label))
            of_requests = loss.of_requests(
                tf.where(known, label, 0.0), tf.cast(logits[task.name], "float32"), known
            )
            losses.append(tf.reduce_sum(of_requests) / totals[task.name])
        return losses, penalties


def depends_on_batch(tower: keras.layers.Layer) -> bool:
    """Returns whether outputs or penalties of a tower depend on other requests of the batch."""
    compares = any(isinstance(layer, _OF_BATCH) for layer in layers_in(tower))
    return compares or has_batch_statistics(tower)


def _even_parts(mask: tf.Tensor, least: tf.Tensor) -> tf.Tensor:
    """Requests of a part, where parts of one size have at least so many, if the batch has."""
    requests = tf.maximum(tf.shape(mask)[0], 1)
    return -(-requests // tf.maximum(requests // least, 1))


def _has_gradient(x: tf.Tensor | None) -> bool:
    return x is not None and x.dtype.is_floating
