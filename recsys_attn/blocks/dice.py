"""Dice, DIN's data adaptive activation function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.compiling import fused
from recsys_attn.checks import require_number
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Dice(Layer):
    """A PReLU with a threshold that adapts to the data of each channel.

    `f(s) = p s + (1 - p) alpha s`, `p = sigmoid((s - mean) / sqrt(variance + epsilon))`

    Mean and variance are those of the batch in training, and moving averages otherwise, over all
    axes but the last; `alpha` is learned and starts at 0. Computed in float32.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978.

    Args:
        momentum: Decay of the moving averages.
        epsilon: Number added to the variance.

    Call arguments:
        inputs: (..., C).
        where: Booleans that broadcast to the inputs without their last axis, False for padding,
            which does not enter the statistics. A batch of padding only does not change the moving
            averages.

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
        self.supports_masking = True
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
        if not (training and self.trainable):
            scale = ops.rsqrt(self.moving_variance + self.epsilon)
            return _bend(inputs, self.moving_mean, scale, self.alpha)
        # One axis of rows: XLA sums over it several times faster than over many axes.
        rows = ops.reshape(inputs, (-1, self.alpha.shape[0]))
        share, rate = self._shares(inputs, where)
        mean, variance = _statistics(rows, share)
        self.moving_mean.assign(self.moving_mean + rate * (mean - self.moving_mean))
        self.moving_variance.assign(self.moving_variance + rate * (variance - self.moving_variance))
        scale = ops.rsqrt(variance + self.epsilon)
        # A copy: a function with a custom gradient takes tensors, not variables.
        output = _bend_in_training(rows, share, mean, scale, ops.copy(self.alpha))
        return ops.reshape(output, ops.shape(inputs))

    def _shares(self, x: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor | float]:
        """Returns the weight of each row in an average, and the step of the moving averages."""
        leading = ops.shape(x)[:-1]
        real = ops.ones(leading, "float32") if where is None else ops.cast(where, "float32")
        real = ops.reshape(ops.broadcast_to(real, leading), (-1, 1))
        count = ops.sum(real)
        return real / ops.maximum(count, 1), (1 - self.momentum) * ops.minimum(count, 1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def _bend(x: Tensor, mean: Tensor, scale: Tensor, alpha: Tensor) -> Tensor:
    """Returns `p x + (1 - p) alpha x`, with one multiplication less."""
    s = ops.cast(x, "float32")
    return ops.cast(s * (alpha + (1 - alpha) * ops.sigmoid((s - mean) * scale)), x.dtype)


_fused_bend = fused(_bend)


@fused
def _statistics(x: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and variance of each channel."""
    x = ops.cast(x, "float32")
    mean = ops.sum(x * share, axis=0)
    return mean, ops.sum(ops.square(x - mean) * share, axis=0)


@ops.custom_gradient
def _bend_in_training(
    x: Tensor, share: Tensor, mean: Tensor, scale: Tensor, alpha: Tensor
) -> tuple[Tensor, Callable[..., tuple[Tensor | None, ...]]]:
    """`_bend` with a gradient by x through mean and scale too, which have none themselves.

    The gradient consists of operations on the arguments, so that it has derivatives too.
    """

    def gradient(*tensors: Tensor, upstream: Tensor | None = None) -> tuple[Tensor | None, ...]:
        # PyTorch passes the arguments too; the others pass the upstream gradient only.
        if upstream is None:
            tensors, upstream = (x, share, mean, scale, alpha), tensors[0]
        by_x, by_alpha = _gradient(*tensors, upstream)
        return by_x, None, None, None, by_alpha

    return _fused_bend(x, mean, scale, alpha), gradient


@fused
def _gradient(
    x: Tensor, share: Tensor, mean: Tensor, scale: Tensor, alpha: Tensor, by_output: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradients by x and alpha; recomputing `p` is faster than storing it."""
    s, by_output = ops.cast(x, "float32"), ops.cast(by_output, "float32")
    norm = (s - mean) * scale
    p = ops.sigmoid(norm)
    by_bend = by_output * s * (1 - p)
    by_norm = by_bend * (1 - alpha) * p
    by_statistics = ops.sum(by_norm, axis=0) + norm * ops.sum(by_norm * norm, axis=0)
    by_x = by_output * (alpha + (1 - alpha) * p) + scale * (by_norm - share * by_statistics)
    return ops.cast(by_x, x.dtype), ops.sum(by_bend, axis=0)
