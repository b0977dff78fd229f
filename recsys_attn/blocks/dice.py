"""Dice, the data adaptive activation function."""

from __future__ import annotations

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
        else:
            mean, variance = self.moving_mean, self.moving_variance
        share = ops.sigmoid((x - mean) * ops.rsqrt(variance + self.epsilon))
        # p s + (1 - p) alpha s, with one multiplication less over all of s.
        return ops.cast(x * (self.alpha + (1 - self.alpha) * share), self.compute_dtype)

    def _update(self, x: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance of the real rows, which also move the moving averages.

        The variance is least at the mean, and so has no gradient by it: none is computed.
        """
        axes = tuple(range(len(x.shape) - 1))
        if where is None:
            rate: Any = 1 - self.momentum
            mean = ops.mean(x, axis=axes)
            variance = ops.mean(ops.square(x - ops.stop_gradient(mean)), axis=axes)
        else:
            real = ops.broadcast_to(ops.cast(where, "float32"), ops.shape(x)[:-1])[..., None]
            count = ops.sum(real)
            rate = (1 - self.momentum) * ops.minimum(count, 1)
            mean = ops.sum(x * real, axis=axes) / ops.maximum(count, 1)
            squares = ops.square(x - ops.stop_gradient(mean)) * real
            variance = ops.sum(squares, axis=axes) / ops.maximum(count, 1)
        self.moving_mean.assign(self.moving_mean + rate * (mean - self.moving_mean))
        self.moving_variance.assign(self.moving_variance + rate * (variance - self.moving_variance))
        return mean, variance

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "momentum": self.momentum, "epsilon": self.epsilon}
