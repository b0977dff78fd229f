"""The weights of the tasks in the loss: fixed, or learned with the model."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.experiment.training_options import TrainingOptions, Uncertainty, with_options
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task

_RATE = 0.01  # of Adam, in logarithms of weights


class TaskWeights:
    """The fixed weights of the tasks.

    Args:
        tasks: The tasks.
    """

    learned = False

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    @property
    def shared(self) -> Sequence[keras.Variable]:
        """The model's weights whose gradient `update` needs by task."""
        return ()

    @property
    def variables(self) -> list[keras.Variable]:
        """The state, as a checkpoint has it."""
        return []

    def values(self) -> tf.Tensor:
        """The weight of each task in the next step."""
        return tf.constant([task.weight for task in self._tasks])

    def penalty(self) -> tf.Tensor:
        """A term of the loss besides the weighted losses."""
        return tf.zeros(())

    def update(self, losses: tf.Tensor, gradients: tf.Tensor | None) -> None:
        """Changes the weights after a step, within a replica.

        Args:
            losses: The loss of each task over all replicas, without its weight.
            gradients: Their gradients by `shared`, (tasks, numbers); None without these.
        """

    def by_task(self) -> dict[str, float]:
        """The weight of each task."""
        names = (task.name for task in self._tasks)
        return dict(zip(names, self.values().numpy().tolist(), strict=True))


class LearnedWeights(TaskWeights):
    """One learned number for each task, which starts at 0: a weight of 1."""

    learned = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(tasks)
        self.numbers = _state(len(tasks), "task_weights")
        self._optimizer = keras.optimizers.Adam(_RATE)
        self._optimizer.build([self.numbers])

    @property
    def variables(self) -> list[keras.Variable]:
        return [self.numbers, *self._optimizer.variables]

    def _step(self, slopes: tf.Tensor, known: tf.Tensor) -> None:
        """A step of Adam, which adds up the slopes of all replicas.

        Args:
            slopes: The gradient by each task's number.
            known: Whether a task has a loss in this step. Another one keeps its number, which
                Adam's momentum would move.
        """
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        before = tf.convert_to_tensor(self.numbers.value)
        self._optimizer.apply([slopes / replicas], [self.numbers])
        self.numbers.assign(tf.where(known, tf.convert_to_tensor(self.numbers.value), before))


class UncertaintyWeights(LearnedWeights):
    """Learns `sum_k exp(-s_k) L_k + s_k / 2` by the model and by s at once.

    s_k is the logarithm of the task's variance: the best weight of a loss of constant size is
    `exp(-s_k) = 1 / (2 L_k)`. A task without a known label in a step keeps its number.

    Source: Kendall, Gal and Cipolla, "Multi-Task Learning Using Uncertainty to Weigh Losses for
    Scene Geometry and Semantics", CVPR 2018, arXiv 1705.07115, equation 10 (classification).
    """

    def values(self) -> tf.Tensor:
        return tf.exp(-tf.convert_to_tensor(self.numbers.value))

    def penalty(self) -> tf.Tensor:
        return tf.reduce_sum(tf.convert_to_tensor(self.numbers.value)) / 2

    def update(self, losses: tf.Tensor, gradients: tf.Tensor | None) -> None:
        self._step(tf.where(losses > 0, 0.5 - self.values() * losses, 0.0), losses > 0)


class GradNormWeights(LearnedWeights):
    """Learns weights so that the tasks' gradients of a shared layer are alike.

    `G_k = |w_k grad L_k|` should be `mean(G) r_k^alpha`, where `r_k` is the share of its first loss
    that the task still has, in units of the tasks' mean. The weights follow the gradient of
    `sum_k |G_k - mean(G) r_k^alpha|`, whose second term is constant. They are
    `K softmax(numbers)`, so that they stay positive and sum to the number of tasks K.

    Source: Chen et al., "GradNorm: Gradient Normalization for Adaptive Loss Balancing in Deep
    Multitask Networks", ICML 2018, arXiv 1711.02257, equations 1 and 2; there the weights
    themselves are learned, and divided by their mean after each step.

    Args:
        tasks: The tasks.
        shared: The weights of the last layer that the tasks share.
        alpha: Power of the tasks' rates of training.
    """

    def __init__(
        self, tasks: Sequence[Task], shared: Sequence[keras.Variable], alpha: float
    ) -> None:
        super().__init__(tasks)
        self._shared = shared
        self._alpha = alpha
        self._first = _state(len(tasks), "first_losses")  # 0 before a task had a known label

    @property
    def shared(self) -> Sequence[keras.Variable]:
        return self._shared

    @property
    def variables(self) -> list[keras.Variable]:
        return [*super().variables, self._first]

    def values(self) -> tf.Tensor:
        numbers = tf.convert_to_tensor(self.numbers.value)
        return tf.nn.softmax(numbers) * float(len(self._tasks))

    def update(self, losses: tf.Tensor, gradients: tf.Tensor | None) -> None:
        before = tf.convert_to_tensor(self._first.value)
        first = tf.where(before > 0, before, losses)
        self._first.assign(first)
        norms = tf.norm(gradients, axis=1)
        slopes = slopes_of(self.values(), norms, losses, first, self._alpha)
        self._step(slopes, (losses > 0) & (norms > 0))


def slopes_of(
    weights: tf.Tensor, norms: tf.Tensor, losses: tf.Tensor, first: tf.Tensor, alpha: float
) -> tf.Tensor:
    """The gradient of GradNorm's loss by the logarithms of the weights, before the softmax.

    Tasks without a loss or a gradient in this step count in no mean.

    Args:
        weights: The weight w of each task.
        norms: The norm of the gradient of each loss, without its weight.
        losses: The losses.
        first: The first loss of each task.
        alpha: Power of the tasks' rates of training.
    """
    counts = tf.cast((losses > 0) & (norms > 0), "float32")
    number = tf.maximum(tf.reduce_sum(counts), 1.0)
    shares = tf.math.divide_no_nan(losses, first)
    rates = tf.math.divide_no_nan(shares, tf.reduce_sum(counts * shares) / number)
    mean = tf.reduce_sum(counts * weights * norms) / number
    slopes = counts * norms * tf.sign(weights * norms - mean * rates**alpha)
    total = tf.reduce_sum(weights)  # the number of tasks
    return weights * (slopes - tf.reduce_sum(weights * slopes) / total)


def make_task_weights(options: TrainingOptions, model: RankingModel) -> TaskWeights:
    """The weights of `training.task_weights`.

    Raises:
        PipelineError: GradNorm finds no layer that the tasks share.
    """
    tasks = model.schema.tasks
    if options.task_weights is None:
        return TaskWeights(tasks)
    weighting = with_options(options.task_weights)
    if isinstance(weighting, Uncertainty):
        return UncertaintyWeights(tasks)
    shared = getattr(model.tower, "last_shared", None)
    if not shared:
        raise PipelineError(
            "`training.task_weights`: GradNorm compares the gradients of the last layer that all "
            f"tasks share, and the model {model.name!r} has none with weights. Set "
            '`task_weights = "uncertainty"`, or choose another model.'
        )
    return GradNormWeights(tasks, shared, weighting.alpha)


def _state(size: int, name: str) -> keras.Variable:
    return keras.Variable(
        tf.zeros(size), trainable=False, name=name, aggregation="only_first_replica"
    )
