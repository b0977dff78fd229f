"""Learning rate schedules with a warm-up."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops
from keras.optimizers.schedules import LearningRateSchedule

from recsys_attn.checks import require_positive
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Config, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class WarmUp(LearningRateSchedule):
    """A linear warm-up to a learning rate, or to the start of a schedule.

    `rate(step) = schedule(max(0, step - warmup_steps)) min(1, (step + 1) / (warmup_steps + 1))`

    So the rate of the first step is not zero, and that of step `warmup_steps` is the full one.

    Args:
        learning_rate: A float, or the `LearningRateSchedule` that follows.
        warmup_steps: Number of steps with a lower rate.

    Example:

    >>> from recsys_attn.optimizers import WarmUp
    >>> rate = WarmUp(0.4, warmup_steps=3)
    >>> [round(float(rate(step)), 2) for step in range(5)]
    [0.1, 0.2, 0.3, 0.4, 0.4]
    """

    def __init__(self, learning_rate: Any, warmup_steps: int) -> None:
        require_positive("warmup_steps", warmup_steps)
        self.learning_rate = deserialize(learning_rate)
        self.warmup_steps = warmup_steps
        if not isinstance(self.learning_rate, int | float | LearningRateSchedule):
            raise TypeError(
                "`learning_rate` must be a number or a LearningRateSchedule. "
                f"Received: learning_rate={learning_rate!r}"
            )

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        rate = self.learning_rate
        if isinstance(rate, LearningRateSchedule):
            rate = rate(ops.maximum(step - self.warmup_steps, 0.0))
        return rate * ops.minimum((step + 1) / (self.warmup_steps + 1), 1.0)

    def get_config(self) -> Config:
        rate = self.learning_rate
        if isinstance(rate, LearningRateSchedule):
            rate = keras.saving.serialize_keras_object(rate)
        return {"learning_rate": rate, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="recsys_attn")
class InverseSqrtDecay(LearningRateSchedule):
    """A rate that falls with the square root of the step.

    `rate(step) = initial_learning_rate / sqrt(1 + step / decay_steps)`

    After a warm-up of `decay_steps`, this is the schedule of the Transformer.

    Args:
        initial_learning_rate: The rate of step 0.
        decay_steps: A third of the number of steps after which the rate is half.

    Source:
        Vaswani et al., 2017 (arXiv 1706.03762), section 5.3.

    Example:

    >>> from recsys_attn.optimizers import InverseSqrtDecay, WarmUp
    >>> rate = WarmUp(InverseSqrtDecay(0.4, decay_steps=100), warmup_steps=100)
    >>> [round(float(rate(step)), 3) for step in (50, 100, 400)]
    [0.202, 0.4, 0.2]
    """

    def __init__(self, initial_learning_rate: float, decay_steps: int) -> None:
        require_positive("decay_steps", decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps

    def __call__(self, step: Tensor) -> Tensor:
        return self.initial_learning_rate * ops.rsqrt(
            1.0 + ops.cast(step, "float32") / self.decay_steps
        )

    def get_config(self) -> Config:
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
        }
