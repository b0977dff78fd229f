"""A training step of a sequence model: objectives, their gradients, and the update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pipelines.feed import Arrays, Layout
from pipelines.training.step import StepResult
from pipelines.training.task_weights import TaskWeights
from recsys_attn.models import SequenceModel
from recsys_attn.objectives import Objective
from recsys_attn.random_integers import MOST
from recsys_attn.schema import CANDIDATE_MASK, PADDING_ID

Ids = dict[str, tf.Tensor]
PARTS = 4  # of a batch at most, by the lengths of the histories: less padding
# The lengths of parts are multiples of it: XLA compiles the softmax of every other one, in 0.2 s.
LENGTHS = 16


class SequenceStep:
    """Takes a step on one batch for each replica of this worker.

    `loss = sum over objectives of weight * total / count`, over the global batch.

    Args:
        model: The model.
        objectives: The objectives.
        optimizer: Built for the trainable variables of model and objectives.
        layout: Layout of the batches.
        counts: `(size,)`, how often each item occurs in training.
    """

    def __init__(
        self,
        model: SequenceModel,
        objectives: Sequence[Objective],
        optimizer: keras.optimizers.Optimizer,
        layout: Layout,
        counts: np.ndarray,
    ) -> None:
        self._model = model
        self._objectives = objectives
        self._optimizer = optimizer
        self._layout = layout
        # Rounded up, so that no item is lost; the losses correct by the same counts.
        too_many = np.ceil(counts.sum(dtype=np.float64) / (MOST - counts.size))
        self._counts = tf.constant(np.ceil(counts / max(too_many, 1.0)), "float32")
        self._strategy = tf.distribute.get_strategy()
        self.task_weights = TaskWeights(())
        by_row = all(objective.by_row for objective in objectives)
        self._parts = min(PARTS, -(-_longest(layout) // LENGTHS)) if by_row else 1
        self._function: Callable[..., tf.Tensor] | None = None
        self.variables = trained_variables(model, objectives)

    def __call__(
        self, batches: Sequence[Arrays], stop: bool = False, penalty: float = 1.0
    ) -> StepResult:
        """Takes the step.

        Args:
            batches: Blocks of one batch for each replica of this worker.
            stop: Whether this worker wants to stop.
            penalty: Not used: a sequence model has no penalties that grow.
        """
        parts = [self._tensors(batch) for batch in batches]
        if self._function is None:
            # One trace for parts of all lengths: it takes seconds.
            specs = tf.nest.map_structure(lambda ids: tf.TensorSpec([None, None], ids.dtype), parts)
            self._function = tf.function(
                self._on_replicas, autograph=False, input_signature=[tf.TensorSpec([]), specs]
            )
        with self._strategy.scope():
            result = self._function(tf.constant(float(stop)), parts)
        loss, rows, wishes = result.numpy()
        return StepResult(float(loss), round(rows), bool(wishes > 0))

    def _tensors(self, blocks: Arrays) -> list[Ids]:
        """The ids of some parts of a batch, the shortest histories first, with little padding."""
        inputs = self._layout.inputs(blocks)
        inputs.pop(CANDIDATE_MASK)
        present = np.any([ids != PADDING_ID for ids in inputs.values()], axis=0)
        lengths = present.sum(axis=1)
        order = np.argsort(lengths, kind="stable")
        found = []
        for rows in np.array_split(order, self._parts):
            longest = max(1, -(-int(lengths[rows].max(initial=0)) // LENGTHS)) * LENGTHS
            found.append(
                {name: tf.convert_to_tensor(ids[rows, :longest]) for name, ids in inputs.items()}
            )
        return found

    def _on_replicas(self, stop: tf.Tensor, batches: list[list[Ids]]) -> tf.Tensor:
        parts: Any = batches[0]
        if len(batches) > 1:
            parts = self._strategy.experimental_distribute_values_from_function(
                lambda context: batches[context.replica_id_in_sync_group % len(batches)]
            )
        results = self._strategy.run(self._replica, args=(stop, parts))
        return self._strategy.experimental_local_results(results)[0]

    def _replica(self, stop: tf.Tensor, parts: Sequence[Mapping[str, tf.Tensor]]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.constant(0.0)
            for objective in self._objectives:
                found = [objective(self._model, part, self._counts) for part in parts]
                total = tf.add_n([tf.cast(each.total, "float32") for each in found])
                count = self._sum(tf.add_n([tf.cast(each.count, "float32") for each in found]))
                loss += objective.weight * total / tf.maximum(count, 1.0)
            scaled = self._optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.variables)
        pairs = zip(gradients, self.variables, strict=True)
        used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        self._optimizer.apply(*map(list, zip(*used, strict=True)))
        # A worker without data left gets a row without events.
        rows = sum(tf.math.count_nonzero(part[self._model.item][:, 0]) for part in parts)
        return self._sum(tf.stack([loss, tf.cast(rows, "float32"), stop]))

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        """The sum over all replicas."""
        if self._strategy.num_replicas_in_sync == 1:
            return x
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)


def _longest(layout: Layout) -> int:
    """Events of the longest history."""
    columns = [place for _, place in layout.places.values() if isinstance(place, slice)]
    return max(place.stop - place.start for place in columns)


def trained_variables(
    model: SequenceModel, objectives: Sequence[Objective]
) -> list[keras.Variable]:
    """The variables that training changes: those of the model, then of the objectives."""
    own = [v for objective in objectives for v in objective.trainable_variables]
    return [*model.trainable_variables, *own]
