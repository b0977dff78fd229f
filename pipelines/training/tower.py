"""Loss and gradient of the tower: the dense arithmetic between the lookups and their updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pipelines.config import TrainingOptions
from recsys_attn.losses import CandidateCrossentropy
from recsys_attn.schema import CANDIDATE_MASK, Task

Tensors = Mapping[str, tf.Tensor]


_IN_CACHE = 512


def tower_rows(options: TrainingOptions) -> int | None:
    """Candidates that the tower is to compute at a time; None for the whole batch."""
    if options.tower_rows is None:
        return None if tf.config.list_physical_devices("GPU") else _IN_CACHE
    return options.tower_rows or None


class TowerResult(NamedTuple):
    """A loss and its gradients."""

    loss: tf.Tensor
    leaves: list[tf.Tensor]  # what of the embedding's output can have a gradient
    of_leaves: list[tf.Tensor]
    of_variables: list[tf.Tensor]  # of the tower, in the order of its trainable variables


class Tower:
    """Computes the loss of embedded requests and its gradients, a part of the batch at a time.

    A batch of thousands of requests makes tensors of a hundred megabytes, which every operation
    reads from memory and writes back. The same requests some hundred at a time stay in the
    processor's cache; their losses and gradients are added up, so that the step is that of the
    whole batch, but for layers that look at a batch as a whole, such as Dice, which then see the
    part (as in "ghost" batch normalisation, Hoffer et al. 2017, arXiv 1705.08741).

    Args:
        tower: What maps the embedding's output to logits by task.
        tasks: With their weights.
        scale_loss: What the optimizer wants the loss to be multiplied by, for its gradients.
        jit_compile: Whether XLA compiles it, forwards and backwards.
        rows: Candidates at a time; the whole batch where None.
    """

    def __init__(
        self,
        tower: keras.layers.Layer,
        tasks: Sequence[Task],
        scale_loss: Callable[[tf.Tensor], tf.Tensor],
        jit_compile: bool = False,
        rows: int | None = None,
    ) -> None:
        self._tower = tower
        self._tasks = tasks
        self._scale_loss = scale_loss
        self._rows = rows
        self._loss = CandidateCrossentropy(reduction="none")
        self._gradients = tf.function(self._part, jit_compile=True) if jit_compile else self._part

    def __call__(self, fields: Any, labels: Tensors, totals: Tensors, replicas: int) -> TowerResult:
        """The loss of a replica's requests and its gradients.

        Args:
            fields: The embedding's output.
            labels: (B, T) by task, NaN where not known.
            totals: How many labels of a task are known, on all replicas.
            replicas: How many share the tower's own penalties.
        """
        flat = tf.nest.flatten((fields, labels))
        requests, candidates = tf.unstack(tf.shape(fields[CANDIDATE_MASK])[:2])
        leaves = [x for x in tf.nest.flatten(fields) if _has_gradient(x)]
        if self._rows is None:
            loss, of_leaves, of_variables = self._gradients(fields, labels, totals, 1.0 / replicas)
            return TowerResult(loss, leaves, of_leaves, of_variables)
        size = tf.maximum(self._rows // candidates, 1)
        share = 1.0 / (replicas * tf.cast(-(-requests // size), "float32"))

        def part(begin: tf.Tensor, sums: Any, found: Any) -> Any:
            end = tf.minimum(begin + size, requests)
            own = [None if x is None else x[begin:end] for x in flat]
            own_fields, own_labels = tf.nest.pack_sequence_as((fields, labels), own)
            loss, of_leaves, of_variables = self._gradients(own_fields, own_labels, totals, share)
            new = [total + x for total, x in zip(sums, [loss, *of_variables], strict=True)]
            place = begin // size
            found = [f.write(place, x) for f, x in zip(found, of_leaves, strict=True)]
            return end, new, found

        zeros = [tf.zeros(()), *(tf.zeros(v.shape, v.dtype) for v in self._variables)]
        found = [
            tf.TensorArray(
                x.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=[None, *x.shape[1:]]
            )
            for x in leaves
        ]
        _, sums, found = tf.while_loop(
            lambda begin, *_: begin < requests, part, (0, zeros, found), parallel_iterations=1
        )
        return TowerResult(sums[0], leaves, [f.concat() for f in found], sums[1:])

    @property
    def _variables(self) -> list[keras.Variable]:
        return self._tower.trainable_variables

    def _part(
        self, fields: Any, labels: Tensors, totals: Tensors, share: Any
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Loss, gradients of what can have one in `fields`, and of the variables."""
        leaves = [x for x in tf.nest.flatten(fields) if _has_gradient(x)]
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            logits = self._tower(fields, training=True)
            losses = [tf.cast(penalty, "float32") * share for penalty in self._tower.losses]
            for task in self._tasks:
                label = labels[task.name]
                known = tf.logical_not(tf.math.is_nan(label))
                each = self._loss(
                    tf.where(known, label, 0.0),
                    tf.cast(logits[task.name], "float32"),
                    sample_weight=tf.cast(known, "float32"),
                )
                losses.append(task.weight * tf.reduce_sum(each) / totals[task.name])
            loss = tf.add_n(losses)
            scaled = self._scale_loss(loss)
        variables = [v.value for v in self._variables]
        of_leaves, of_variables = tape.gradient(
            scaled, (leaves, variables), unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return loss, of_leaves, of_variables


def _has_gradient(x: tf.Tensor | None) -> bool:
    return x is not None and x.dtype.is_floating
