"""A training step of a sequence model: objectives, their gradients, and the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipelines.feed import Arrays, Layout
from pipelines.training.replica_step import ReplicaStep
from pipelines.training.task_weights import TaskWeights
from recsys_attn.models import SequenceModel
from recsys_attn.objectives import Objective
from recsys_attn.random_integers import MOST
from recsys_attn.schema import CANDIDATE_MASK, PADDING_ID

Ids = dict[str, tf.Tensor]
PARTS = 4  # of a batch at most, by the lengths of the histories: less padding
# The lengths of parts are multiples of it: XLA compiles the softmax of every other one, in 0.2 s.
LENGTHS = 16


class SequenceStep(ReplicaStep):
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
        super().__init__(TaskWeights(()))
        self._model = model
        self._objectives = objectives
        self._optimizer = optimizer
        self._layout = layout
        # Rounded up, so that no item is lost; the losses correct by the same counts.
        too_many = np.ceil(counts.sum(dtype=np.float64) / (MOST - counts.size))
        self._counts = tf.constant(np.ceil(counts / max(too_many, 1.0)), "float32")
        by_row = all(objective.by_row for objective in objectives)
        self._parts = min(PARTS, -(-_longest(layout) // LENGTHS)) if by_row else 1
        self.variables = trained_variables(model, objectives)

    def _tensors(self, blocks: Arrays) -> list[Ids]:
        """The ids of some parts of a batch, the shortest histories first, with little padding."""
        inputs = self._layout.inputs(blocks)
        inputs.pop(CANDIDATE_MASK)
        present = np.any([ids != PADDING_ID for ids in inputs.values()], axis=0)
        lengths = present.sum(axis=1)
        order = np.argsort(lengths, kind="stable")
        parts = []
        for rows in np.array_split(order, self._parts):
            longest = max(1, -(-int(lengths[rows].max(initial=0)) // LENGTHS)) * LENGTHS
            parts.append(
                {name: tf.convert_to_tensor(ids[rows, :longest]) for name, ids in inputs.items()}
            )
        return parts

    def _length(self, batch: list[Ids]) -> None:
        return None  # one trace for parts of all lengths: it takes seconds

    def _specs(self, batch: list[Ids]) -> list[dict[str, tf.TensorSpec]]:
        specs: list[dict[str, tf.TensorSpec]] = tf.nest.map_structure(
            lambda ids: tf.TensorSpec([None, None], ids.dtype), batch
        )
        return specs

    def _replica(
        self, batch: Sequence[Mapping[str, tf.Tensor]], stop: tf.Tensor, penalty: tf.Tensor
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.constant(0.0)
            for objective in self._objectives:
                losses = [objective(self._model, part, self._counts) for part in batch]
                total = tf.add_n([tf.cast(part_loss.total, "float32") for part_loss in losses])
                count = self._sum(
                    tf.add_n([tf.cast(part_loss.count, "float32") for part_loss in losses])
                )
                loss += objective.weight * total / tf.maximum(count, 1.0)
            scaled = self._optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.variables)
        pairs = zip(gradients, self.variables, strict=True)
        used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        self._optimizer.apply(*map(list, zip(*used, strict=True)))
        # A worker without data left gets a row without events.
        rows = sum(tf.math.count_nonzero(part[self._model.item][:, 0]) for part in batch)
        return self._sum(tf.stack([loss, tf.cast(rows, "float32"), stop]))


def _longest(layout: Layout) -> int:
    """Events of the longest history."""
    columns = [place for _, place in layout.places.values() if isinstance(place, slice)]
    return max(place.stop - place.start for place in columns)


def trained_variables(
    model: SequenceModel, objectives: Sequence[Objective]
) -> list[keras.Variable]:
    """The variables that training changes: those of the model, then of the objectives."""
    of_objectives = [v for objective in objectives for v in objective.trainable_variables]
    return [*model.trainable_variables, *of_objectives]
