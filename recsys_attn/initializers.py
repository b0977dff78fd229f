"""Initializers of several weights in one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
from keras import ops

from recsys_attn.tensors import Config, Tensor


def blockwise(
    blocks: int | Sequence[int], axis: int, initializer: str | Config = "glorot_uniform"
) -> Callable[..., Tensor]:
    """Draws blocks along `axis`, a number of equal ones or one of each size, with their own fans.

    So experts, heads and tasks in one tensor start different from each other, with the same scale
    as in tensors of their own.
    """

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        sizes = [shape[axis] // blocks] * blocks if isinstance(blocks, int) else blocks
        shapes = [[*shape[:axis], size, *shape[axis + 1 :]] for size in sizes]
        # A new initializer per block: one object would give every block the same values.
        draws = [keras.initializers.get(initializer)(block, dtype=dtype) for block in shapes]
        return ops.concatenate(draws, axis=axis)

    return initialize


def glorot(gain: float) -> keras.initializers.Initializer:
    """Returns Glorot's uniform initializer with its values times `gain`."""
    return keras.initializers.VarianceScaling(gain**2, mode="fan_avg", distribution="uniform")


def scaled(initializer: str | Config, gain: float) -> Callable[..., Tensor]:
    """Draws by a new initializer of this name or config, as an old one repeats itself."""

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        return gain * keras.initializers.get(initializer)(shape, dtype=dtype)

    return initialize


def repeated(initializer: Callable[..., Tensor], heads: int, times: int) -> Callable[..., Tensor]:
    """Draws a matrix of which the columns of each head occur `times` times, side by side."""

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        rows, columns = shape
        drawn = initializer((rows, columns // times), dtype=dtype)
        drawn = ops.reshape(drawn, (rows, heads, 1, columns // (heads * times)))
        return ops.reshape(ops.repeat(drawn, times, axis=2), shape)

    return initialize
