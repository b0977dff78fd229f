"""Dice, the data adaptive activation function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Dice(keras.layers.Layer):
    """A PReLU whose bend follows the data, channel by channel.

    `f(s) = p s + (1 - p) alpha s`, `p = sigmoid((s - mean) / sqrt(variance + epsilon))`

    Mean and variance are those of the batch in training and moving averages otherwise, both over
    all axes but the last; `alpha` is learned and starts at 0. All of it is computed in float32.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978.

    Args:
        momentum: How much of a moving average stays at each step.
        epsilon: What is added to the variance.

    Call arguments:
        inputs: (..., C).
        where: Booleans that broadcast to the inputs without their last axis, False for padding,
            which is kept out of the statistics. Where a batch is all padding, the moving
            averages stay as they are.

    Returns:
        (..., C).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.blocks import Dice
    >>> rows = keras.random.normal((2, 3, 8))
    >>> real = np.array([[True, True, False], [True, False, False]])
    >>> tuple(Dice()(rows, where=real).shape)
    (2, 3, 8)
    """

    def __init__(self, momentum: float = 0.99, epsilon: float = 1e-8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("momentum", momentum, least=0, below=1)
        require_number("epsilon", epsilon, least=0)
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        def weight(name: str, initializer: str, trainable: bool) -> Tensor:
            return self.add_weight(
                shape=(input_shape[-1],),
                initializer=initializer,
                trainable=trainable,
                dtype="float32",
                autocast=False,
                name=name,
            )

        self.alpha = weight("alpha", "zeros", trainable=True)
        self.moving_mean = weight("moving_mean", "zeros", trainable=False)
        self.moving_variance = weight("moving_variance", "ones", trainable=False)

    def call(
        self, inputs: Tensor, where: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        x = ops.cast(inputs, "float32")
        if training and self.trainable:
            mean, variance = self._update(x, where)
            scale = ops.rsqrt(variance + self.epsilon)
            # A copy: a function with a gradient of its own takes tensors, not variables.
            output = _bend_in_training(x, mean, scale, ops.copy(self.alpha))
        else:
            scale = ops.rsqrt(self.moving_variance + self.epsilon)
            output = _bend(x, self.moving_mean, scale, self.alpha)
        return ops.cast(output, self.compute_dtype)

    def _update(self, x: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance of the real rows, which also move the moving averages."""
        average, rate = self._averaging(x, where)
        mean = average(x)
        # About a constant, with nothing but a vector to correct: the variance has no gradient by
        # its mean, and the pass over all of x that would compute it is spared.
        centre = ops.stop_gradient(mean)
        variance = average(ops.square(x - centre)) - ops.square(mean - centre)
        self.moving_mean.assign(self.moving_mean + rate * (mean - self.moving_mean))
        self.moving_variance.assign(self.moving_variance + rate * (variance - self.moving_variance))
        return mean, variance

    def _averaging(
        self, x: Tensor, where: Tensor | None
    ) -> tuple[Callable[[Tensor], Tensor], Tensor | float]:
        """What averages over the real rows, and how far the moving averages follow it."""
        axes = tuple(range(len(x.shape) - 1))
        if where is None:
            return (lambda values: ops.mean(values, axis=axes)), 1 - self.momentum
        real = ops.broadcast_to(ops.cast(where, "float32"), ops.shape(x)[:-1])[..., None]
        count = ops.sum(real)
        rate = (1 - self.momentum) * ops.minimum(count, 1)
        return (lambda values: ops.sum(values * real, axis=axes) / ops.maximum(count, 1)), rate

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "momentum": self.momentum, "epsilon": self.epsilon}


def _bend(x: Tensor, mean: Tensor, scale: Tensor, alpha: Tensor) -> Tensor:
    """`p x + (1 - p) alpha x`, with one multiplication less over all of x."""
    return x * (alpha + (1 - alpha) * ops.sigmoid((x - mean) * scale))


@ops.custom_gradient
def _bend_in_training(
    x: Tensor, mean: Tensor, scale: Tensor, alpha: Tensor
) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
    """With a gradient that computes `p` anew: XLA then passes over memory less often.

    The gradient is made of operations on the arguments, and so has derivatives itself.
    """

    def gradient(*given: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
        # PyTorch hands the arguments back; the others give the upstream gradient alone.
        s, m, r, a = (x, mean, scale, alpha) if upstream is None else given
        by_output = given[0] if upstream is None else upstream
        axes = tuple(range(len(s.shape) - 1))
        p = ops.sigmoid((s - m) * r)
        by_bend = by_output * s
        by_norm = by_bend * (1 - a) * p * (1 - p)
        return (
            by_output * (a + (1 - a) * p) + by_norm * r,
            -r * ops.sum(by_norm, axis=axes),
            ops.sum(by_norm * (s - m), axis=axes),
            ops.sum(by_bend * (1 - p), axis=axes),
        )

    return _bend(x, mean, scale, alpha), gradient
